// Package man generates man pages from the grammar.
//
// It may import kong. The one thing to know: apart from headings, all text comes from the help, so
// that the pages are never out of date.
package man

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The sections of the manual with pages: commands, and topics.
const (
	commands = "1"
	topics   = "7"
)

// Manual is the input of the pages. Everything except Topics is required.
type Manual struct {
	Root    *kong.Node        // the program
	About   string            // a one-sentence description
	Version string            // for the footer of every page
	Topics  map[string]string // preformatted texts of the help topics, by name

	Examples map[string][]string // example command lines, by the path of their command
}

// Path returns the names of a command and of its nouns, without the name of the program and without
// aliases, which kong writes behind each name.
func Path(node *kong.Node) string {
	if node == nil || node.Parent == nil {
		return ""
	}
	return strings.TrimSpace(Path(node.Parent) + " " + node.Name)
}

// Summary returns how a command is called: its path, its arguments and its required flags.
func Summary(node *kong.Node) string {
	text := node.Summary()
	for at := node; at != nil; at = at.Parent {
		if len(at.Aliases) > 0 {
			text = strings.Replace(text, " ("+strings.Join(at.Aliases, ",")+")", "", 1)
		}
	}
	return text
}

// Pages returns the pages by their path in a folder of manuals, such as man1/perdure.1. Hidden
// commands have none.
func (b Manual) Pages() map[string]string {
	all := map[string]string{writePlaceholder(b.Root.Name, commands): b.program()}
	for _, noun := range shown(b.Root) {
		all[writePlaceholder(b.Root.Name+"-"+noun.Name, commands)] = b.noun(noun)
	}
	for name, text := range b.Topics {
		all[writePlaceholder(b.Root.Name+"-"+name, topics)] = b.topic(name, text)
	}
	return all
}

// writePlaceholder returns the path of a page.
func writePlaceholder(name, section string) string { return path.Join("man"+section, name+"."+section) }

// program returns the page of the program: the flags of every command, and references to the other
// pages.
func (b Manual) program() string {
	p := b.page(b.Root.Name, commands, b.About)
	p.macro("SH", "SYNOPSIS")
	p.bold(b.Root.Name + " COMMAND [flags]")
	p.macro("SH", "DESCRIPTION")
	p.text(b.About)
	p.macro("SH", "COMMANDS")
	for _, noun := range shown(b.Root) {
		p.item(b.Root.Name+"-"+noun.Name+"("+commands+")", noun.Help)
	}
	p.macro("SH", "OPTIONS")
	p.flags(b.Root.Flags)
	p.macro("SH", "SEE ALSO")
	var also []string
	for _, name := range slices.Sorted(maps.Keys(b.Topics)) {
		also = append(also, b.Root.Name+"-"+name+"("+topics+")")
	}
	p.text(strings.Join(also, ", "))
	return p.String()
}

// noun returns the page of a command and its subcommands.
func (b Manual) noun(noun *kong.Node) string {
	p := b.page(b.Root.Name+"-"+noun.Name, commands, noun.Help)
	p.macro("SH", "SYNOPSIS")
	verbs := []*kong.Node{noun}
	if !noun.Leaf() {
		verbs = shown(noun)
	}
	for i, verb := range verbs {
		if i > 0 {
			p.macro("br")
		}
		p.bold(b.Root.Name + " " + Summary(verb))
	}
	p.macro("SH", "DESCRIPTION")
	p.text(noun.Help)
	p.aliases(noun)
	if noun.Leaf() {
		p.values(noun)
		p.examples(b.Examples[Path(noun)])
	} else {
		if hasFlags(noun) {
			p.macro("SH", "OPTIONS")
			p.flags(noun.Flags)
		}
		p.macro("SH", "COMMANDS")
		for _, verb := range verbs {
			p.macro("SS", b.Root.Name+" "+Path(verb))
			p.text(verb.Help)
			p.aliases(verb)
			p.values(verb)
			p.examples(b.Examples[Path(verb)])
		}
	}
	p.macro("SH", "SEE ALSO")
	p.text(b.Root.Name + "(" + commands + ") describes the flags of every command.")
	return p.String()
}

// topic returns the page of a help topic. Its lines are kept.
func (b Manual) topic(name, text string) string {
	p := b.page(b.Root.Name+"-"+name, topics, strings.ReplaceAll(name, "-", " ")+" of "+b.Root.Name)
	p.macro("SH", "DESCRIPTION")
	p.macro("nf")
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		p.text(strings.TrimSuffix(line, "\n"))
	}
	p.macro("fi")
	p.macro("SH", "SEE ALSO")
	p.text(b.Root.Name + "(" + commands + ")")
	return p.String()
}

func (b Manual) page(name, section, about string) *page {
	p := &page{}
	p.macro("TH", strings.ToUpper(name), section, "", b.Version, b.Root.Name)
	p.macro("SH", "NAME")
	p.text(name + " - " + strings.TrimSuffix(about, "."))
	return p
}

// page is a page under construction.
type page struct{ strings.Builder }

// macro writes a request of man(7). Arguments are quoted, so that empty ones and those with spaces
// are preserved.
func (p *page) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, arg := range args {
		fmt.Fprintf(p, ` "%s"`, strings.ReplaceAll(escaped(arg), `"`, `\(dq`))
	}
	p.WriteByte('\n')
}

// text writes a line, which is filled together with its neighbours.
func (p *page) text(line string) {
	line = escaped(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line // otherwise it would be a request
	}
	p.WriteString(line + "\n")
}

func (p *page) bold(line string) { p.macro("B", line) }

// item writes a term and its description.
func (p *page) item(word, about string) {
	p.macro("TP")
	p.bold(word)
	p.text(about)
}

// aliases writes the other names of a command.
func (p *page) aliases(node *kong.Node) {
	if len(node.Aliases) > 0 {
		p.text("Aliases: " + strings.Join(node.Aliases, ", ") + ".")
	}
}

// examples writes example command lines, as they are.
func (p *page) examples(lines []string) {
	if len(lines) == 0 {
		return
	}
	p.macro("TP")
	p.bold("Examples")
	p.macro("nf")
	for _, line := range lines {
		p.text(line)
	}
	p.macro("fi")
}

// values writes the arguments and flags of a command.
func (p *page) values(node *kong.Node) {
	for _, arg := range node.Positional {
		p.item(arg.Summary(), arg.Help)
	}
	p.flags(node.Flags)
}

func (p *page) flags(all []*kong.Flag) {
	for _, flag := range all {
		if flag.Hidden {
			continue
		}
		about := flag.Help
		if len(flag.Envs) > 0 {
			about += " Environment: $" + strings.Join(flag.Envs, ", $") + "."
		}
		if flag.HasDefault && flag.Default != "" {
			about += " Default: " + flag.Default + "."
		}
		p.item(flag.String(), about)
	}
}

func hasFlags(node *kong.Node) bool {
	for _, flag := range node.Flags {
		if !flag.Hidden {
			return true
		}
	}
	return false
}

func shown(node *kong.Node) (all []*kong.Node) {
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, child)
		}
	}
	return all
}

// escaped escapes roff syntax and characters that are not ASCII.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`) // a plain - becomes a hyphen, which cannot be pasted as a flag
		case r == '\'', r == '`', r == '^', r == '~':
			b.WriteString(map[rune]string{'\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`}[r])
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		case r < ' ':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
