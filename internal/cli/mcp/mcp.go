// Package mcp is the room of the command line for MCP: serve, proxy, config.
//
// It may import the root. The one thing to know: stdout belongs to the protocol while a command serves on stdio; whatever is
// said to people goes to stderr.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/perdure/perdure"
)

// Serving says what is shown to one MCP client on stdio.
type Serving struct {
	Dir, Database, Server string // as the command line's own
	Tools                 []string
	SoftBudget            time.Duration
	StopTime              time.Duration // of the whole stop
	In                    io.Reader
	Out                   io.Writer
}

// Proxying says which MCP server is made durable.
type Proxying struct {
	Dir        string // the data directory; the proxy's own is in it
	Name       string
	Command    []string // the server, on stdio; empty: URL
	URL        string
	Classes    map[string]perdure.EffectClass // by tool
	SoftBudget time.Duration
	StopTime   time.Duration // of the whole stop
	Listen     string        // host:port of the proxy's own /mcp; empty: it serves on stdio
	In         io.Reader
	Out        io.Writer
}

// Hands is what the commands may not import.
type Hands struct {
	Serve func(context.Context, Serving) error
	Proxy func(context.Context, Proxying) error
	Keep  func(context.Context, Keeping) error
	Test  func(context.Context, Testing) (Tested, error)
}

// Testing says which MCP server is tried.
type Testing struct {
	Dir     string   // the data directory
	Name    string   // of a server of its mcp.json; empty: Command or URL
	Command []string // on stdio
	URL     string
}

// Tested is what a server said.
type Tested struct {
	Server string // its name and version
	Era    string // the version of the protocol
	Tasks  bool   // it makes tasks of calls
	Tools  []TestedTool
}

// TestedTool is a tool of a server.
type TestedTool struct {
	Name  string // as agents, or clients of a proxy, call it
	Class perdure.EffectClass
	Title string
}

// Keeping says which MCP server is kept alive beside its proxy.
type Keeping struct {
	Socket  string
	Command []string
	Linger  time.Duration
	// StopTime is that of the whole stop, in which the server ends, by force if it must.
	StopTime time.Duration
}

// Console is where the commands read and write.
type Console interface {
	// Streams are stdin and stdout.
	Streams() (io.Reader, io.Writer)
	// Say writes a line for people.
	Say(format string, args ...any)
}

// Desk is what the commands use of the command line.
type Desk interface {
	Console
	// Store is the data directory, the database and the server, as an engine is opened: those that the one asked has to be of.
	Store() (dir, database, server string)
	// Folder is the data directory on this machine. Empty: there is none.
	Folder() string
	// Local refuses a command that works in the data directory itself, where a server or a database is named.
	Local(what string) error
	// MCP is what main gave.
	MCP() Hands
	// StopTime is how long the whole stop may take after a signal.
	StopTime() time.Duration
}

// Commands are the verbs of mcp.
type Commands struct {
	Serve  Serve  `cmd:"" help:"Serve tools to one MCP client, on stdio. Slow calls are durable tasks."`
	Proxy  Proxy  `cmd:"" help:"Make the calls of another MCP server durable: they detach, survive, can be cancelled, and are not repeated."`
	Test   Test   `cmd:"" help:"Try an MCP server: what it speaks, and which tools it has."`
	Config Config `cmd:"" help:"Print the block to paste into an MCP client's configuration."`
	Keep   Keep   `cmd:"" hidden:"" help:"Keep an MCP server alive beside its proxy."`
}

// Serve serves on stdio.
type Serve struct {
	Tool       []string      `help:"Show this tool; * shows all that need no capability. Can be given several times." placeholder:"NAME" required:""`
	SoftBudget time.Duration `help:"How long a client without tasks is kept waiting, at most 50s." placeholder:"DURATION" default:"50s"`
}

// Run serves until the client goes.
func (c *Serve) Run(ctx context.Context, d Desk) error {
	dir, database, server := d.Store()
	in, out := d.Streams()
	return d.MCP().Serve(ctx, Serving{Dir: dir, Database: database, Server: server, Tools: c.Tool, SoftBudget: c.SoftBudget, StopTime: d.StopTime(), In: in, Out: out})
}

// Proxy stands between a client and a server.
type Proxy struct {
	Name       string            `help:"Under which its calls are kept: one at a time has a name. Default: of the command." placeholder:"NAME"`
	Class      map[string]string `help:"What may be done with a call that was cut: pure, idempotent or at_most_once, which it is without a word." placeholder:"TOOL=CLASS"`
	SoftBudget time.Duration     `help:"How long a client without tasks is kept waiting, at most 50s." placeholder:"DURATION" default:"50s"`
	URL        string            `help:"The server's URL, instead of a command." placeholder:"URL"`
	Listen     string            `help:"Serve on /mcp of this loopback address, instead of stdio." placeholder:"HOST:PORT"`
	Command    []string          `arg:"" optional:"" passthrough:"" help:"The server and its arguments, after --."`
}

// Run serves until the client goes.
func (c *Proxy) Run(ctx context.Context, d Desk) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if (len(c.Command) == 0) == (c.URL == "") {
		return fmt.Errorf("%w: name either a command after --, or --url", perdure.Invalid)
	}
	classes := map[string]perdure.EffectClass{}
	for name, text := range c.Class {
		class := perdure.EffectClass(text)
		if !class.Valid() {
			return fmt.Errorf("%w class %q of %s: pure, idempotent or at_most_once", perdure.Invalid, text, name)
		}
		classes[name] = class
	}
	if err := d.Local("mcp proxy"); err != nil {
		return err
	}
	dir := d.Folder()
	if dir == "" {
		return fmt.Errorf("%w: there is no data directory: name one with --data or PERDURE_DATA", perdure.Invalid)
	}
	in, out := d.Streams()
	return d.MCP().Proxy(ctx, Proxying{
		Dir: dir, Name: c.Name, Command: c.Command, URL: c.URL, Classes: classes, SoftBudget: c.SoftBudget, StopTime: d.StopTime(), Listen: c.Listen, In: in, Out: out,
	})
}

// Test tries a server.
type Test struct {
	Name    string   `help:"A server of the data directory's mcp.json; it is asked anew." placeholder:"NAME"`
	URL     string   `help:"The server's URL, instead of a command." placeholder:"URL"`
	Command []string `arg:"" optional:"" passthrough:"" help:"The server and its arguments, after --."`
}

// Run asks it, and prints what it says.
func (c *Test) Run(ctx context.Context, d Desk) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	given := 0
	for _, is := range []bool{c.Name != "", c.URL != "", len(c.Command) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("%w: name one server: a command after --, or --url, or --name", perdure.Invalid)
	}
	dir := d.Folder()
	if dir == "" {
		return fmt.Errorf("%w: there is no data directory: name one with --data or PERDURE_DATA", perdure.Invalid)
	}
	said, err := d.MCP().Test(ctx, Testing{Dir: dir, Name: c.Name, Command: c.Command, URL: c.URL})
	if err != nil {
		return err
	}
	tasks := "its calls are not tasks"
	if said.Tasks {
		tasks = "its calls can be tasks"
	}
	d.Say("%s speaks %s; %s", clean(said.Server), clean(said.Era), tasks)
	_, out := d.Streams()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range said.Tools {
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", clean(t.Name), t.Class, clean(t.Title)); err != nil {
			return err
		}
	}
	return table.Flush()
}

// clean is a text of others in a line, without what would steer a terminal.
func clean(text string) string {
	fields := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	runes := []rune(strings.Join(fields, " "))
	return string(runes[:min(len(runes), 200)])
}

// Config prints what to paste.
type Config struct {
	Client string   `arg:"" enum:"claude,cursor,vscode,generic" default:"generic" help:"claude, cursor, vscode or generic."`
	Tool   []string `help:"As of mcp serve." placeholder:"NAME" default:"*"`
}

// Run prints it.
func (c *Config) Run(_ context.Context, d Desk) error {
	dir := d.Folder()
	args := []string{"mcp", "serve", "--data", dir}
	for _, name := range c.Tool {
		args = append(args, "--tool", name)
	}
	key := "mcpServers"
	if c.Client == "vscode" {
		key = "servers"
	}
	block := map[string]any{key: map[string]any{"perdure": map[string]any{"command": "perdure", "args": args}}}
	text, err := json.MarshalIndent(block, "", "  ")
	if err != nil {
		return err
	}
	where := map[string]string{"claude": "claude_desktop_config.json, or .mcp.json of a project", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}[c.Client]
	if where != "" {
		d.Say("into %s:", where)
	}
	_, out := d.Streams()
	_, err = fmt.Fprintln(out, string(text))
	return err
}

// Keep keeps a server alive.
type Keep struct {
	Socket  string        `required:"" type:"path"`
	Linger  time.Duration `default:"24h"`
	Command []string      `arg:"" passthrough:""`
}

// Run keeps it until nobody needs it any more.
func (c *Keep) Run(ctx context.Context, d Desk) error {
	if len(c.Command) > 0 && strings.TrimSpace(c.Command[0]) == "--" {
		c.Command = c.Command[1:]
	}
	return d.MCP().Keep(ctx, Keeping{Socket: c.Socket, Command: c.Command, Linger: c.Linger, StopTime: d.StopTime()})
}
