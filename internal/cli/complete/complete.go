// Package complete is the room of the command line for completion: what may stand at the end of a line that is not typed to
// its end (C15).
//
// It may import kong. The one thing to know: the scripts for the shells know no command. They ask the program itself, which
// reads its own grammar, so that they are never out of date.
package complete

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Word is one thing that may be typed.
type Word struct {
	Text  string
	About string // for shells that show it; empty: nothing
}

// Found is what may stand at the end of a line.
type Found struct {
	Words []Word
	Of    *kong.Value // a value whose words the grammar does not know, such as an id; nil: there is none
	Node  *kong.Node  // the command that it belongs to
	Front string      // what stands before a value in its word: --state=
	Files bool        // a path
}

// Look finds what may stand at the end of a line: words are those behind the program's name, and the last one is not typed to
// its end. A shell may have parted a flag from its value at the =.
func Look(root *kong.Node, words []string) Found {
	words, parted := join(words)
	if len(words) == 0 {
		words = []string{""}
	}
	l := line{node: root}
	for _, word := range words[:len(words)-1] {
		l.take(word)
	}
	found := l.end(words[len(words)-1])
	if parted {
		found.Front = ""
	}
	if found.Front != "" {
		for i := range found.Words {
			found.Words[i].Text = found.Front + found.Words[i].Text
		}
	}
	return found
}

// join puts flags together with their values where a shell has parted them at the =.
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

// line is how far a line was read.
type line struct {
	node  *kong.Node
	place int        // of the next argument of node
	flag  *kong.Flag // the word that comes is its value; nil: it is not
	args  bool       // there are no flags any more
}

// take reads a word that is typed to its end.
func (l *line) take(word string) {
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

// end finds what the last word may become.
func (l *line) end(word string) Found {
	name, value, given := strings.Cut(word, "=")
	switch {
	case l.flag != nil:
		return l.values(l.flag.Value, word)
	case !l.args && given && strings.HasPrefix(word, "--"):
		flag := l.find(name)
		if flag == nil {
			return Found{}
		}
		found := l.values(flag.Value, value)
		found.Front = name + "="
		return found
	case !l.args && strings.HasPrefix(word, "-"):
		return Found{Words: begin(l.flags(), word)}
	}
	var words []Word
	for _, child := range l.node.Children {
		if !child.Hidden {
			words = append(words, Word{child.Name, child.Help})
		}
	}
	if len(words) > 0 {
		return Found{Words: begin(words, word)}
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
	return Found{}
}

// values finds what a value may be.
func (l *line) values(v *kong.Value, word string) Found {
	var words []Word
	for _, text := range strings.Split(v.Enum, ",") {
		if text != "" {
			words = append(words, Word{Text: text})
		}
	}
	if len(words) > 0 {
		return Found{Words: begin(words, word)}
	}
	return Found{Of: v, Node: l.node, Files: v.Tag != nil && v.Tag.Type == "path"}
}

// child is a command below the node.
func (l *line) child(word string) *kong.Node {
	i := slices.IndexFunc(l.node.Children, func(n *kong.Node) bool { return n.Name == word })
	if i < 0 {
		return nil
	}
	return l.node.Children[i]
}

// find finds a flag by how it was typed. Several short ones in one word are not looked at.
func (l *line) find(typed string) *kong.Flag {
	for node := l.node; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if typed == "--"+flag.Name || flag.Short != 0 && typed == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

// flags are those that may be typed here.
func (l *line) flags() []Word {
	var all []Word
	for node := l.node; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if !flag.Hidden {
				all = append(all, Word{"--" + flag.Name, flag.Help})
			}
		}
	}
	return all
}

// begin leaves the words that begin with what is typed.
func begin(words []Word, typed string) []Word {
	return slices.DeleteFunc(words, func(w Word) bool { return !strings.HasPrefix(w.Text, typed) })
}
