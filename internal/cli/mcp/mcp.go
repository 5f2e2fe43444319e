// Package mcp implements the MCP commands of the command line: serve, proxy, test, config.
//
// It may import the root and internal/cli/settings. The one thing to know: stdout belongs to the
// protocol while a command serves on stdio; messages go to stderr.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/settings"
)

// ServeOptions configures an MCP server on stdio.
type ServeOptions struct {
	Dir, Database, Server string // as in cli.Opening
	Tools                 []string
	SoftBudget            time.Duration
	EngineSettings
	Utility  settings.Utility
	StopTime time.Duration // limit of the stop
	// Secrets that commands may use, that the model may read, too, and that need an approval for
	// both; as in cli.SecretRules.
	UseSecret, AllowSecret, AskSecret []string
	In                                io.Reader
	Out                               io.Writer
}

// EngineSettings say how an engine works.
type EngineSettings struct {
	ModelOptions []string // how models are asked
	Limits       settings.Limits
	TypedLimit   string // a limit that was typed for this command; empty: none was
	SharedFiles  bool   // with a database: every process reaches the files of all sessions
}

// ProxyOptions configures a durable proxy of an MCP server.
type ProxyOptions struct {
	Dir        string // the data directory, which contains that of the proxy
	Name       string
	Command    []string // command of the server on stdio; empty: URL is used
	URL        string
	Classes    map[string]perdure.EffectClass // by tool
	SoftBudget time.Duration
	StopTime   time.Duration // limit of the stop
	Listen     string        // host:port of the proxy's own /mcp; empty: it serves on stdio
	In         io.Reader
	Out        io.Writer
}

// Operations holds the functions that the commands must not import.
type Operations struct {
	Program string // path of this program; empty: unknown
	Serve   func(context.Context, ServeOptions) error
	Proxy   func(context.Context, ProxyOptions) error
	Keep    func(context.Context, KeepOptions) error
	Test    func(context.Context, TestOptions) (TestResult, error)
}

// TestOptions says which MCP server to test.
type TestOptions struct {
	Dir     string   // the data directory
	Name    string   // name of a server in its mcp.json; empty: Command or URL is used
	Command []string // command of a server on stdio
	URL     string
}

// TestResult is the result of a test.
type TestResult struct {
	Server          string // name and version
	ProtocolVersion string // protocol version
	Tasks           bool   // the server runs calls as tasks
	Tools           []TestedTool
}

// TestedTool is a tool of a server.
type TestedTool struct {
	Name  string // as agents and clients of a proxy call it
	Class perdure.EffectClass
	Title string
}

// KeepOptions configures the process that keeps an MCP server alive independently of its proxy.
type KeepOptions struct {
	Name    string // of the server, for its log; may be empty
	Socket  string
	Command []string
	Linger  time.Duration
	// StopTime limits the stop. After it the server is killed.
	StopTime time.Duration
}

// Messages gives the commands their streams.
type Messages interface {
	// Streams returns stdin and stdout.
	Streams() (io.Reader, io.Writer)
	// Say writes a message line.
	Say(format string, args ...any)
	// NoteWait says what the command waits for, once it has waited long. ended must be called.
	NoteWait(what string) (ended func())
}

// Console gives the commands access to the command line.
type Console interface {
	Messages
	// Store returns the data directory, database and server of an engine. If several are given,
	// they must belong together.
	Store() (dir, database, server string)
	// Folder returns the data directory on this machine. Empty: there is none.
	Folder() string
	// Local refuses a command that works directly on the data directory when a server or a database
	// is named.
	Local(what string) error
	// MCP returns the functions that main provides.
	MCP() Operations
	// StopTime returns how long a stop may take after a signal.
	StopTime() time.Duration
	// Settings returns how an engine works.
	Settings() EngineSettings
}

// Commands are the verbs of mcp.
type Commands struct {
	Serve  Serve  `cmd:"" help:"Serve tools to an MCP client on stdio. Slow calls become durable tasks."`
	Proxy  Proxy  `cmd:"" help:"Run a durable proxy for an MCP server: its calls detach, survive crashes, can be canceled, and are not repeated."`
	Test   Test   `cmd:"" help:"Test an MCP server and list its tools."`
	Config Config `cmd:"" help:"Print a configuration snippet for an MCP client."`
	Keep   Keep   `cmd:"" hidden:"" help:"Keep an MCP server alive independently of its proxy."`
}

// Serve serves on stdio.
type Serve struct {
	Tool       []string      `help:"Offer this tool; * offers all tools that need no capability. Repeatable." placeholder:"NAME" required:""`
	SoftBudget time.Duration `help:"How long a client without task support waits for a call, at most 50s." placeholder:"DURATION" default:"50s"`
	settings.Utility

	UseSecret   []string `name:"use-secret" help:"Name of a secret that commands of its session may have in their environment; * is every secret. Repeatable." placeholder:"NAME"`
	AllowSecret []string `name:"allow-secret" help:"Name of a secret that the client may read with secret_store, and commands may use; * is every secret. Repeatable." placeholder:"NAME"`
	AskSecret   []string `name:"ask-secret" help:"Name of a secret that needs an approval each time that the client wants to read it, or to use it in a command; * is every secret. Repeatable." placeholder:"NAME"`
}

// Run serves until the client disconnects.
func (c *Serve) Run(ctx context.Context, d Console) error {
	dir, database, server := d.Store()
	in, out := d.Streams()
	return d.MCP().Serve(ctx, ServeOptions{Dir: dir, Database: database, Server: server, Tools: c.Tool,
		SoftBudget: c.SoftBudget, EngineSettings: d.Settings(), Utility: c.Utility, StopTime: d.StopTime(),
		UseSecret: c.UseSecret, AllowSecret: c.AllowSecret, AskSecret: c.AskSecret, In: in, Out: out})
}

// Proxy runs between a client and a server.
type Proxy struct {
	Name       string            `help:"Name under which calls are stored. Proxies with one name share a server; their command lines must be the same. Default: the name of the command, with a digest of its arguments." placeholder:"NAME"`
	Class      map[string]string `help:"Effect class of a tool, for crash recovery: pure, idempotent or at_most_once (default)." placeholder:"TOOL=CLASS"`
	SoftBudget time.Duration     `help:"How long a client without task support waits for a call, at most 50s." placeholder:"DURATION" default:"50s"`
	URL        string            `help:"URL of the server, instead of a command." placeholder:"URL"`
	Listen     string            `help:"Serve on /mcp of this loopback address instead of stdio." placeholder:"HOST:PORT"`
	Command    []string          `arg:"" optional:"" passthrough:"" help:"Command of the server with its arguments, after --."`
}

// Run serves until the client disconnects.
func (c *Proxy) Run(ctx context.Context, d Console) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if (len(c.Command) == 0) == (c.URL == "") {
		return fmt.Errorf("%w call: give either a command after -- or --url", perdure.Invalid)
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
		return fmt.Errorf("%w call: there is no default data directory: set one with --data or PERDURE_DATA",
			perdure.Invalid)
	}
	in, out := d.Streams()
	return d.MCP().Proxy(ctx, ProxyOptions{
		Dir: dir, Name: c.Name, Command: c.Command, URL: c.URL, Classes: classes, SoftBudget: c.SoftBudget,
		StopTime: d.StopTime(), Listen: c.Listen, In: in, Out: out,
	})
}

// Test tests a server.
type Test struct {
	Name    string   `help:"Name of a server in the mcp.json of the data directory." placeholder:"NAME"`
	URL     string   `help:"URL of the server, instead of a command." placeholder:"URL"`
	Command []string `arg:"" optional:"" passthrough:"" help:"Command of the server with its arguments, after --."`
}

// Run connects to the server and prints what it offers.
func (c *Test) Run(ctx context.Context, d Console) error {
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
		return fmt.Errorf("%w call: give exactly one of a command after --, --url and --name", perdure.Invalid)
	}
	dir := d.Folder()
	if dir == "" {
		return fmt.Errorf("%w call: there is no default data directory: set one with --data or PERDURE_DATA",
			perdure.Invalid)
	}
	answered := d.NoteWait("the tools of the server")
	said, err := d.MCP().Test(ctx, TestOptions{Dir: dir, Name: c.Name, Command: c.Command, URL: c.URL})
	answered()
	if err != nil {
		return err
	}
	tasks := "does not support tasks"
	if said.Tasks {
		tasks = "supports tasks"
	}
	d.Say("%s: protocol %s, %s", withoutSeparator(said.Server), withoutSeparator(said.ProtocolVersion), tasks)
	_, out := d.Streams()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range said.Tools {
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", withoutSeparator(t.Name), t.Class, withoutSeparator(t.Title)); err != nil {
			return err
		}
	}
	return table.Flush()
}

// withoutSeparator returns external text on one line, without control characters.
func withoutSeparator(text string) string {
	fields := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	runes := []rune(strings.Join(fields, " "))
	return string(runes[:min(len(runes), 200)])
}

// Config prints a configuration snippet.
type Config struct {
	Client  string   `arg:"" enum:"claude,cursor,vscode,generic" default:"generic" help:"MCP client: claude, cursor, vscode or generic."`
	Tool    []string `help:"Tools to offer, as for mcp serve. Default: all that need no capability." placeholder:"NAME"`
	URL     string   `help:"Put the proxy before the server with this URL." placeholder:"URL"`
	Command []string `arg:"" optional:"" passthrough:"" help:"Put the proxy before the server with this command and these arguments, after --."`
}

// Run prints the snippet.
func (c *Config) Run(_ context.Context, d Console) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if c.URL != "" && len(c.Command) > 0 {
		return fmt.Errorf("%w call: give either a command after -- or --url", perdure.Invalid)
	}
	proxies := c.URL != "" || len(c.Command) > 0
	if proxies && len(c.Tool) > 0 {
		return fmt.Errorf("%w call: --tool is for the tools of perdure, and a proxy offers all tools of its server: remove --tool", perdure.Invalid)
	}
	dir := d.Folder()
	if dir == "" {
		return fmt.Errorf("%w call: there is no default data directory: set one with --data or PERDURE_DATA", perdure.Invalid)
	}
	name, args := c.entry(dir)
	key := "mcpServers"
	if c.Client == "vscode" {
		key = "servers"
	}
	program := cmp.Or(d.MCP().Program, "perdure")
	block := map[string]any{key: map[string]any{name: map[string]any{"command": program, "args": args}}}
	text, err := json.MarshalIndent(block, "", "  ")
	if err != nil {
		return err
	}
	where := map[string]string{"claude": "claude_desktop_config.json or the .mcp.json of a project",
		"cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}[c.Client]
	if where != "" {
		d.Say("add this to %s:", where)
	}
	_, out := d.Streams()
	if _, err = fmt.Fprintln(out, string(text)); err == nil && !proxies {
		d.Say("to make the calls of another MCP server durable: perdure mcp config %s -- COMMAND", c.Client)
	}
	return err
}

// entry returns the name of the server in the snippet, and the arguments. A client starts commands
// in any folder and with a short PATH, so that paths are absolute.
func (c *Config) entry(dir string) (name string, args []string) {
	switch {
	case c.URL != "":
		name = "perdure-proxy"
		if u, err := url.Parse(c.URL); err == nil && u.Hostname() != "" {
			name = u.Hostname()
		}
		return name, []string{"mcp", "proxy", "--data", dir, "--url", c.URL}
	case len(c.Command) > 0:
		command := c.Command[0]
		if found, err := exec.LookPath(command); err == nil {
			command = found
		}
		if found, err := filepath.Abs(command); err == nil && strings.ContainsRune(command, filepath.Separator) {
			command = found
		}
		args = append([]string{"mcp", "proxy", "--data", dir, "--", command}, c.Command[1:]...)
		return filepath.Base(c.Command[0]), args
	}
	args = []string{"mcp", "serve", "--data", dir}
	for _, tool := range c.Tool {
		args = append(args, "--tool", tool)
	}
	if len(c.Tool) == 0 {
		args = append(args, "--tool", "*")
	}
	return "perdure", args
}

// Keep keeps a server alive.
type Keep struct {
	Name    string        `hidden:""`
	Socket  string        `required:"" type:"path"`
	Linger  time.Duration `default:"24h"`
	Command []string      `arg:"" passthrough:""`
}

// Run keeps the server alive until it is no longer needed.
func (c *Keep) Run(ctx context.Context, d Console) error {
	if len(c.Command) > 0 && strings.TrimSpace(c.Command[0]) == "--" {
		c.Command = c.Command[1:]
	}
	return d.MCP().Keep(ctx, KeepOptions{Name: c.Name, Socket: c.Socket, Command: c.Command, Linger: c.Linger, StopTime: d.StopTime()})
}
