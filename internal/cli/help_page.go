package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/man"
	"github.com/perdure/perdure/internal/cli/settings"
)

const (
	helpColumns = 80 // width of a help page
	helpLeft    = 30 // widest left column; a wider entry has its description below
	helpIndent  = 2
	helpGap     = 4
	helpPreview = 3 // examples of a noun
)

// commandGroups returns the titles of the groups in the list of commands, in their order.
func commandGroups() []string {
	return []string{"Start here", "Sessions and tasks", "Decide", "Automate", "Operate", "Configure"}
}

// printHelp prints the help of a command. The order is the same everywhere: what it does, how it is
// called, examples, arguments, its own flags or its commands, and the global flags.
func printHelp(_ kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	page := helpPage{root: ctx.Model.Node, known: Examples()}
	if node == nil {
		page.program()
	} else {
		page.command(node)
	}
	_, err := io.WriteString(ctx.Stdout, strings.TrimLeft(page.String(), "\n"))
	return err
}

// helpPage is a help page under construction.
type helpPage struct {
	strings.Builder
	root  *kong.Node
	known map[string][]string // examples by the path of their command
}

// program writes the page of the program: the commands by group, and the global flags.
func (p *helpPage) program() {
	p.paragraph(about)
	p.line("\nUsage: " + p.root.Name + " <command> [flags]")
	p.examples(p.known[""])
	for _, group := range commandGroups() {
		var rows [][2]string
		for _, node := range p.root.Children {
			if !node.Hidden && node.Group != nil && node.Group.Key == group {
				rows = append(rows, [2]string{node.Name, headline(node)})
			}
		}
		p.section(group, rows)
	}
	rows := flagRows(p.root.Flags)
	rows = append(rows, [2]string{"    --" + settings.LimitPrefix + "NAME=VALUE", "Limit of the engine that the command opens: " + p.root.Name + " help limits."},
		[2]string{"    --version", "Print the version (same as version)."})
	p.section("Global flags", rows)
	p.line("\n" + p.root.Name + " <command> --help describes a command.")
}

// headline returns what a noun is for, without its verbs, or what a command does.
func headline(node *kong.Node) string {
	if len(node.Children) == 0 {
		return node.Help
	}
	what, _, _ := strings.Cut(strings.TrimSuffix(node.Help, "."), ": ")
	return what + "."
}

// command writes the page of a noun or a command.
func (p *helpPage) command(node *kong.Node) {
	p.paragraph(node.Help)
	p.line("\nUsage: " + p.root.Name + " " + man.Summary(node))
	if len(node.Aliases) > 0 {
		var names []string
		for _, alias := range node.Aliases {
			names = append(names, strings.Join(strings.Fields(p.root.Name+" "+man.Path(node.Parent)+" "+alias), " "))
		}
		p.line("Aliases: " + strings.Join(names, ", "))
	}
	p.examples(p.examplesOf(node))
	var arguments, commands [][2]string
	for _, arg := range node.Positional {
		arguments = append(arguments, [2]string{arg.Summary(), arg.Help})
	}
	p.section("Arguments", arguments)
	p.section("Flags", flagRows(node.Flags))
	if len(node.Children) > 0 {
		for _, leaf := range node.Leaves(true) {
			commands = append(commands, [2]string{man.Path(leaf), leaf.Help})
		}
	}
	p.section("Commands", commands)
	p.globalFlags()
}

// globalFlags writes the names of the global flags.
func (p *helpPage) globalFlags() {
	var names []string
	for _, flag := range p.root.Flags {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	}
	p.line("\nGlobal flags (" + p.root.Name + " --help describes them):")
	for _, line := range wrapped(strings.Join(append(names, "--"+settings.LimitPrefix+"NAME"), ", "), helpColumns-helpIndent) {
		p.line("  " + line)
	}
}

// examples writes example command lines.
func (p *helpPage) examples(lines []string) {
	if len(lines) > 0 {
		p.line("\nExamples:")
	}
	for _, line := range lines {
		p.line("  " + line)
	}
}

// section writes a title and rows of two columns; nothing without rows.
func (p *helpPage) section(title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	p.line("\n" + title + ":")
	left := 0
	for _, row := range rows {
		if n := columns(row[0]); n <= helpLeft {
			left = max(left, n)
		}
	}
	below := strings.Repeat(" ", helpIndent+left+helpGap)
	for _, row := range rows {
		lines := wrapped(row[1], helpColumns-len(below))
		first := strings.Repeat(" ", helpIndent) + row[0]
		if columns(row[0]) <= helpLeft && len(lines) > 0 {
			first += strings.Repeat(" ", len(below)-helpIndent-columns(row[0])) + lines[0]
			lines = lines[1:]
		}
		p.line(first)
		for _, line := range lines {
			p.line(below + line)
		}
	}
}

// paragraph writes a wrapped text.
func (p *helpPage) paragraph(text string) {
	for _, line := range wrapped(text, helpColumns) {
		p.line(line)
	}
}

func (p *helpPage) line(text string) { p.WriteString(text + "\n") }

// flagRows returns the rows of the flags that are not hidden: how each is typed, and what it does,
// with its default and its environment variable.
func flagRows(flags []*kong.Flag) (rows [][2]string) {
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		typed := "    --" + flag.Name
		if flag.Short != 0 {
			typed = "-" + string(flag.Short) + ", --" + flag.Name
		}
		if !flag.IsBool() {
			typed += "=" + placeholderOf(flag)
		}
		var notes []string
		if shown := strings.Trim(flag.Default, `"`); shown != "" && !flag.IsBool() && !strings.Contains(flag.Help, "Default: ") {
			notes = append(notes, "default: "+shown)
		}
		for _, env := range flag.Envs {
			notes = append(notes, "$"+env)
		}
		about := flag.Help
		if len(notes) > 0 {
			about += " (" + strings.Join(notes, ", ") + ")"
		}
		rows = append(rows, [2]string{typed, about})
	}
	return rows
}

// placeholderOf returns what stands for the value of a flag.
func placeholderOf(flag *kong.Flag) string {
	name := flag.PlaceHolder
	if name == "" {
		name = strings.ToUpper(flag.Name)
	}
	if flag.IsSlice() || flag.IsMap() {
		name += ",..."
	}
	return name
}

// wrapped splits a text into lines of at most n columns, at its spaces.
func wrapped(text string, n int) (lines []string) {
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || columns(lines[last])+1+columns(word) > n {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

// examplesOf returns the examples of a command, or the first example of the first verbs of a noun.
func (p *helpPage) examplesOf(node *kong.Node) (lines []string) {
	if len(node.Children) == 0 {
		return p.known[man.Path(node)]
	}
	for _, leaf := range node.Leaves(true) {
		if first := p.known[man.Path(leaf)]; len(first) > 0 && len(lines) < helpPreview {
			lines = append(lines, first[0])
		}
	}
	return lines
}
