// Package complete completes partial command lines.
//
// It may import kong. The one thing to know: the shell scripts know no commands. They call the
// program, which reads its own grammar, so that they are never out of date.
package complete

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Candidate is one completion.
type Candidate struct {
	Text  string
	About string // description, for shells that show one; empty: none
}

// Completions is the result of a completion.
type Completions struct {
	Words  []Candidate
	Of     *kong.Value // a value that the grammar does not know, such as an id; nil: none
	Node   *kong.Node  // the command that it belongs to
	Prefix string      // prefix of the value in its word: --state=
	Files  bool        // a path is expected
}

// Complete completes a command line. words are the words after the program name; the last one is
// incomplete. A shell may have split a flag from its value at the =.
func Complete(root *kong.Node, words []string) Completions {
	words, parted := join(words)
	if len(words) == 0 {
		words = []string{""}
	}
	l := parser{node: root}
	for _, word := range words[:len(words)-1] {
		l.take(word)
	}
	found := l.end(words[len(words)-1])
	if parted {
		found.Prefix = ""
	}
	if found.Prefix != "" {
		for i := range found.Words {
			found.Words[i].Text = found.Prefix + found.Words[i].Text
		}
	}
	return found
}

// join joins flags with their values where a shell has split them at the =.
func join(words []string) (joined []string, parted bool) {
	for i := 0; i < len(words); i++ {
		last := len(joined) - 1
		if words[i] != "=" || last < 0 || !strings.HasPrefix(joined[last], "--") {
			joined, parted = append(joined, words[i]), false
			continue
		}
		joined[last] += "="
		if parted = true; i+1 < len(words) {
			i++
			joined[last] += words[i]
		}
	}
	return joined, parted
}

// parser is the state after reading a part of a command line.
type parser struct {
	node  *kong.Node
	place int        // index of the next argument of node
	flag  *kong.Flag // flag whose value is the next word; nil: none
	args  bool       // flags are no longer allowed
}

// take reads a complete word.
func (l *parser) take(word string) {
	switch {
	case l.flag != nil:
		l.flag = nil
	case l.args:
		l.place++
	case word == "--":
		l.args = true
	case strings.HasPrefix(word, "-") && word != "-":
		if name, _, given := strings.Cut(word, "="); !given {
			if flag := l.find(name); flag != nil && !flag.IsBool() {
				l.flag = flag
			}
		}
	default:
		if child := l.child(word); child != nil {
			l.node, l.place = child, 0
			return
		}
		l.place++
	}
}

// end completes the last word.
func (l *parser) end(word string) Completions {
	name, value, given := strings.Cut(word, "=")
	switch {
	case l.flag != nil:
		return l.values(l.flag.Value, word)
	case !l.args && given && strings.HasPrefix(word, "--"):
		flag := l.find(name)
		if flag == nil {
			return Completions{}
		}
		found := l.values(flag.Value, value)
		found.Prefix = name + "="
		return found
	case !l.args && strings.HasPrefix(word, "-"):
		return Completions{Words: begin(l.flags(), word)}
	}
	var words []Candidate
	for _, child := range l.node.Children {
		if !child.Hidden {
			words = append(words, Candidate{child.Name, child.Help})
		}
	}
	if len(words) > 0 {
		return Completions{Words: begin(words, word)}
	}
	if n := len(l.node.Positional); n > 0 {
		last := l.node.Positional[n-1]
		if l.place < n {
			return l.values(l.node.Positional[l.place], word)
		}
		if last.IsSlice() {
			return l.values(last, word)
		}
	}
	return Completions{}
}

// values returns the completions of a value.
func (l *parser) values(v *kong.Value, word string) Completions {
	var words []Candidate
	for _, text := range strings.Split(v.Enum, ",") {
		if text != "" {
			words = append(words, Candidate{Text: text})
		}
	}
	if len(words) > 0 {
		return Completions{Words: begin(words, word)}
	}
	return Completions{Of: v, Node: l.node, Files: v.Tag != nil && v.Tag.Type == "path"}
}

// child returns a subcommand of the node.
func (l *parser) child(word string) *kong.Node {
	i := slices.IndexFunc(l.node.Children, func(n *kong.Node) bool { return n.Name == word || slices.Contains(n.Aliases, word) })
	if i < 0 {
		return nil
	}
	return l.node.Children[i]
}

// find finds a flag as it was typed. Combined short flags are not supported.
func (l *parser) find(typed string) *kong.Flag {
	for node := l.node; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if typed == "--"+flag.Name || flag.Short != 0 && typed == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

// flags returns the flags that are allowed here.
func (l *parser) flags() []Candidate {
	var all []Candidate
	for node := l.node; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if !flag.Hidden {
				all = append(all, Candidate{"--" + flag.Name, flag.Help})
			}
		}
	}
	return all
}

// begin returns the words with the typed prefix.
func begin(words []Candidate, typed string) []Candidate {
	return slices.DeleteFunc(words, func(w Candidate) bool { return !strings.HasPrefix(w.Text, typed) })
}
