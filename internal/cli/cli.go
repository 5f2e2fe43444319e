// Package cli implements the command line of perdure: a noun, then a verb, over an engine that main
// opens.
//
// It may import the root, engine, docs, internal/redact, kong, and its own sub-packages (admin,
// chaoscmd, complete, demo, dev, man, mcp, output, raw, scaffold, settings). Everything else
// arrives as functions in a [Dependencies]. The one thing to know: data goes to stdout and messages
// go to stderr, and no text of a journal reaches a terminal before [printable] has filtered it
// (C18).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/cli/chaoscmd"
	"github.com/perdure/perdure/internal/cli/demo"
	"github.com/perdure/perdure/internal/cli/man"
	"github.com/perdure/perdure/internal/cli/mcp"
	"github.com/perdure/perdure/internal/cli/settings"
)

const program = "perdure"

// description is the first line of the help.
const about = "A durable runtime for the tool calls of AI agents. Work survives crashes, and a crash never repeats an at-most-once effect."

// Dependencies holds what main provides to the command line: arguments and streams, and functions
// for everything that this package must not import.
type Dependencies struct {
	Args     []string // without the program name
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Terminal Terminal
	Signals  <-chan os.Signal         // nil: no signals arrive
	Env      func(name string) string // reads the environment; nil: no variable is set
	Program  Program
	DataDir  string // default of --data
	Version  Version

	// Log returns the logger of a command.
	Log func(LogStyle) *slog.Logger
	// Open opens an engine.
	Open func(context.Context, OpenOptions) (Engine, error)
	// TestModel sends a minimal request to a model with options as in Opening. Invalid: the name
	// matches no model of this build, its script cannot be read, or an option is wrong.
	TestModel func(ctx context.Context, name string, options []string) (engine.ProviderTest, error)
	// SameDatabase reports whether two URLs lead to the same database. It returns false when that
	// cannot be determined.
	SameDatabase func(ctx context.Context, one, other string) bool
	// Diagnose checks whether perdure can work with a data directory. It changes nothing.
	Diagnose   func(ctx context.Context, dataDir string) []Check
	Supervised                 // on this machine
	Servers    ServerProcesses // nil: no server can be found or run in the background

	// Serve opens a data directory and answers requests until ctx ends. It returns the error of
	// Open, or of listening on the address.
	Serve func(context.Context, ServeOptions) error

	Demo      demo.Options // Program, Open and Stage are set
	DemoChild func(context.Context, DemoChildOptions) error

	Admin  admin.Operations
	Egress EgressRules

	Connect ConnectFunc // nil: no server can be reached
	// OpenBrowser opens an address in the browser of the user, through a file of the data
	// directory. nil: no browser can be opened.
	OpenBrowser func(ctx context.Context, dir, address string) error
	// makes the terminal unbuffered, and returns the reverse; nil: input arrives by line
	RawKeys func() (func() error, error)

	// Edit opens a file in an editor and returns when the user closes it. editor may be a command
	// with arguments. nil: no editor can be started.
	Edit func(ctx context.Context, editor, file string) error
	// DiscardInput discards terminal input that nobody has read yet, so that it does not answer the
	// next question. nil: input is kept.
	DiscardInput func()

	MCP       mcp.Operations
	Chaos     chaoscmd.Run // Program, Dial and Addr are set
	ChaosPart func(context.Context, ChaosChild) error
}

// Terminal reports which streams are a terminal.
type Terminal struct{ Stdin, Stdout, Stderr bool }

// LogStyle says what is logged, and how.
type LogStyle struct {
	Verbose bool // everything; false: warnings and errors
	Color   bool
}

// commandLine is the grammar: each noun is one field, and its code is in the file of that name.
type commandLine struct {
	Flags flags `embed:""`

	Run     runCommand     `cmd:"" group:"Start here" help:"Send a prompt to an agent and wait until its work is done."`
	PS      psCommand      `cmd:"" group:"Start here" name:"ps" help:"List work by status: needs you, running, done, failed."`
	Log     taskLog        `cmd:"" group:"Sessions and tasks" aliases:"logs" help:"Print the output of a task (same as task log)."`
	Attach  attachCommand  `cmd:"" group:"Sessions and tasks" help:"Follow the output of a task and send it input (same as task attach)."`
	Cancel  taskCancel     `cmd:"" group:"Sessions and tasks" help:"Cancel a task and everything it started (same as task cancel)."`
	Resolve taskResolve    `cmd:"" group:"Decide" help:"Record the outcome of an unknown task or call (same as task resolve)."`
	Session sessionCommand `cmd:"" group:"Sessions and tasks" aliases:"sessions" help:"Manage sessions: new, list, show, send, tail, label, rename, interrupt, pause, resume, move, fork, export, import, delete."`
	Event   eventCommand   `cmd:"" group:"Sessions and tasks" aliases:"events" help:"Read the journal of a session: list, tail, show, replay."`
	Task    taskCommand    `cmd:"" group:"Sessions and tasks" aliases:"tasks" help:"Manage tasks, the work that outlives a turn: list, show, log, process, watch, attach, input, message, detach, delivery, drain, cancel, resolve."`
	Call    callCommand    `cmd:"" group:"Sessions and tasks" aliases:"calls" help:"Inspect the calls of a session in the effect ledger: list, show, resolve."`

	Approval approvalCommand `cmd:"" group:"Decide" aliases:"approvals" help:"Review calls that need approval: list, show, approve, deny."`
	Approve  approvalApprove `cmd:"" group:"Decide" help:"Approve a call (same as approval approve)."`
	Deny     approvalDeny    `cmd:"" group:"Decide" help:"Deny a call (same as approval deny)."`

	Schedule scheduleCommand `cmd:"" group:"Automate" aliases:"schedules" help:"Manage schedules: create, list, show, next, explain, trigger, pause, resume, backfill, delete."`
	Budget   budgetCommand   `cmd:"" group:"Operate" aliases:"budgets" help:"Manage spending limits: set, show, ledger, resume, remove."`
	Cost     costCommand     `cmd:"" group:"Operate" aliases:"costs" help:"Show costs: report."`
	Payment  paymentCommand  `cmd:"" group:"Operate" aliases:"payments" help:"Read and resolve what tools paid: list, show, resolve."`
	Webhook  webhookCommand  `cmd:"" group:"Automate" aliases:"webhooks" help:"Send events to a URL: create, list, show, change, test, deliveries, redeliver, delete."`

	File   fileCommand   `cmd:"" group:"Sessions and tasks" aliases:"files" help:"Manage the files of a session: ls, cat, put, get, mv, rm, grep."`
	Value  valueCommand  `cmd:"" group:"Sessions and tasks" aliases:"values" help:"Manage the named values of a session: get, set, list, delete."`
	Secret secretCommand `cmd:"" group:"Sessions and tasks" aliases:"secrets" help:"Manage the secrets of a session, which tools can use and nobody can read: set, rotate, list, delete."`

	Image imageCommand `cmd:"" group:"Sessions and tasks" aliases:"images" help:"Manage the images of a session: put, list, get, rm."`
	SQL   sqlCommand   `cmd:"" group:"Sessions and tasks" name:"sql" help:"Read the databases of a session: ls, query, dump."`

	Resource resourceCommand `cmd:"" group:"Sessions and tasks" aliases:"resources" help:"Manage the resources of a session: list, show, release."`

	Tool       toolCommand       `cmd:"" group:"Configure" aliases:"tools" help:"Inspect, call and create tools: list, show, call, init."`
	Agent      agentCommand      `cmd:"" group:"Configure" aliases:"agents" help:"Manage agents: list, show, versions, apply, delete."`
	Harness    harnessCommand    `cmd:"" group:"Configure" aliases:"harnesses" help:"Manage harnesses, the configuration that agents inherit: list, show, versions, apply, delete."`
	Connection connectionCommand `cmd:"" group:"Configure" aliases:"connections" help:"Connect accounts of users at other services, and test them and MCP servers: add, list, test, delete."`
	Provider   providerCommand   `cmd:"" group:"Configure" aliases:"providers" help:"Manage the providers of models and their keys: list, show, set, test, delete."`
	Model      modelCommand      `cmd:"" group:"Configure" aliases:"models" help:"List the models that are known by name, and set the default model: list, default."`

	Token   tokenCommand   `cmd:"" group:"Operate" aliases:"tokens" help:"Manage the API tokens of a server: create, list, revoke."`
	Audit   auditCommand   `cmd:"" group:"Operate" help:"Read the audit log: list."`
	Egress  egressCommand  `cmd:"" group:"Operate" help:"Manage the hosts that tools can reach: list, allow, deny, test."`
	Admin   admin.Commands `cmd:"" group:"Operate" help:"Maintain a data directory: backup, restore, verify, migrate, gc, rotate-key, scheduler."`
	MCP     mcp.Commands   `cmd:"" group:"Automate" name:"mcp" help:"Serve tools to MCP clients, and make calls to MCP servers durable: serve, proxy, config, test."`
	API     apiCommand     `cmd:"" group:"Automate" name:"api" help:"Send a request to the HTTP API and print the response."`
	Config  configCommand  `cmd:"" group:"Configure" help:"Inspect the configuration: list, check, schema."`
	Serve   serveCommand   `cmd:"" group:"Start here" help:"Run a server for a data directory until it is stopped."`
	Dev     devCommand     `cmd:"" group:"Start here" help:"Run a server for development: on a scratch directory, with the web UI open, an agent that needs no key, and reloads of agent files and tool programs."`
	Stop    stopCommand    `cmd:"" group:"Start here" help:"Stop the server of a data directory. Its work continues with the next start."`
	UI      uiCommand      `cmd:"" group:"Start here" name:"ui" help:"Print a link that signs a browser in to the web UI of a running server, and open it."`
	Demo    demoCommand    `cmd:"" group:"Start here" help:"Run a demo: crash, agents, approvals."`
	Chaos   chaosCommand   `cmd:"" group:"Operate" help:"Kill a server repeatedly while sessions run, then check that nothing was lost or repeated."`
	Part    chaosChild     `cmd:"" hidden:"" name:"chaos-part" help:"Run a process of the chaos test."`
	Doctor  doctorCommand  `cmd:"" group:"Start here" help:"Check the installation and suggest fixes."`
	Version versionCommand `cmd:"" group:"Start here" help:"Print version, commit and date (same as --version)."`
	Help    helpCommand    `cmd:"" group:"Start here" help:"Show help on a command or a topic: configuration, effects, environment, exit-codes, formatting, limits, recovery."`

	Completion completionCommand `cmd:"" group:"Configure" help:"Print a completion script for a shell; it completes ids too."`
	Complete   completeCommand   `cmd:"" hidden:"" name:"__complete" help:"Complete a command line (called by the shell)."`
}

// flags are the flags of every command.
type flags struct {
	Data        string `help:"Data directory." placeholder:"DIR" env:"PERDURE_DATA" type:"path" default:"${data}"`
	Database    string `help:"Store sessions in this Postgres database: postgres://USER@HOST/NAME. Several servers can share it; local files stay in the data directory." placeholder:"URL" env:"PERDURE_DATABASE"`
	SharedFiles bool   `name:"shared-files" help:"With --database: every server reaches the databases, images and workspaces of all sessions, for instance on a network drive. Without it, a session with such files is worked on only by a server with the data directory where they are." env:"PERDURE_SHARED_FILES"`
	Server      string `help:"Use this server instead of a data directory: http://HOST:PORT or unix:///PATH. The token is read from PERDURE_TOKEN." placeholder:"URL" env:"PERDURE_SERVER"`
	Color       string `help:"Color the output: auto, always or never. NO_COLOR also turns colors off." placeholder:"WHEN" enum:"auto,always,never" default:"auto"`
	TimeFormat  string `help:"Format of times in tables: relative, rfc3339 (UTC) or local. JSON always uses RFC 3339." placeholder:"FORMAT" enum:"relative,rfc3339,local" default:"relative"`
	Raw         bool   `help:"Print control characters in data unchanged, even on a terminal."`
	NoInput     bool   `help:"Never prompt, and never wait for input."`
	Profile     string `help:"Use this profile of the configuration files." placeholder:"NAME" env:"PERDURE_PROFILE"`
	Verbose     bool   `help:"Log internal activity to stderr."`

	ModelOption []string `name:"model-option" help:"Change how models are asked: NAME=VALUE, or PROVIDER.NAME=VALUE for one provider, for instance first_token_timeout=20m or openai.stream_options=false. Repeatable. It applies to the process that calls the model. See docs/how-to/use-your-model.md." placeholder:"OPTION" env:"PERDURE_MODEL_OPTIONS"`

	Limits settings.Limits `embed:"" prefix:"limits."`

	StopTimeout time.Duration `name:"stop-timeout" help:"Maximum time for a clean stop after Ctrl-C or SIGTERM. After it the process exits, and the next start continues unfinished work. A second signal exits at once." placeholder:"DURATION" env:"PERDURE_STOP_TIMEOUT" default:"10s"`
}

// app is one running command.
type app struct {
	Dependencies
	flags       flags
	typed       map[string]bool // flags that were given on the command line
	command     string          // the words of the running command; empty: none runs yet
	colors      streamColors
	movesCursor bool // stdout is a terminal whose cursor can be moved
	log         *slog.Logger
	stdin       io.Reader
	out         *stdoutWriter // stdout
	ctrlC       ctrlC
	kong        *kong.Kong
	settings    settingsState   // contents of the configuration files
	end         func(error)     // ends the command's context
	abandoned   chan exitReason // capacity 1: why Main stops waiting for the command
	stopping    atomic.Bool     // a signal has ended the command's context
	stopCode    atomic.Int32    // exit code of a command that a signal ended
	keys        rawKeys
}

// Main runs one command and returns its exit code. It never panics and never exits by itself. When
// a command received a signal to stop and does not end in time, Main returns without it; the caller
// then exits the process, which also ends whatever the command is blocked on.
func Main(ctx context.Context, w Dependencies) int {
	if w.Env == nil {
		w.Env = func(string) string { return "" }
	}
	a := &app{Dependencies: w, out: &stdoutWriter{w: w.Stdout}, stdin: w.Stdin, abandoned: make(chan exitReason, 1)}
	a.RawKeys = a.keys.wrap(w.RawKeys)
	a.stopCode.Store(exitInterrupted)
	ended := make(chan int, 1) // capacity 1: the command may end after Main has returned
	go func() { ended <- a.main(ctx) }()
	select {
	case code := <-ended:
		return code
	case l := <-a.abandoned:
		lifetime{a}.exit(l)
		return l.code
	}
}

// main runs the command and returns its exit code.
func (a *app) main(ctx context.Context) (code int) {
	defer func() {
		if p := recover(); p != nil {
			a.reportError(&userError{
				code: exitError, message: fmt.Sprintf("internal error: %v", p),
				hint: "this is a bug: please report it with the command line. Acknowledged work is stored; running the command again is safe",
			})
			code = exitError
		}
	}()
	err := a.run(ctx)
	if err == nil {
		err = a.out.err
	}
	a.reportError(err)
	return exitCode(err)
}

// run parses the arguments and runs the command that they name.
func (a *app) run(ctx context.Context) error {
	if len(a.Args) == 0 {
		a.Args = []string{"--help"}
	}
	if a.Args[0] == "--version" {
		a.Args = append([]string{"version"}, a.Args[1:]...)
	}
	a.settings = a.configure()
	parsed, given, err := commandParser{a}.parse(commandParser{a}.grammar())
	if err == nil && parsed == nil {
		return nil // help was printed
	}
	if given == nil {
		return err
	}
	a.flags, a.typed = *given, commandLineFlags(parsed)
	a.colors = newStreamColors(given.Color, a.Terminal, a.Env)
	a.movesCursor = a.Terminal.Stdout && a.Env("TERM") != "dumb"
	if err == nil {
		err = errors.Join(a.settings.check(parsed), storeChoice{a}.checkStoreFlags(), checkLimits(a.kong.Model.Node, parsed),
			checkOutputFlags(parsed), lifetime{a}.checkStopTimeout())
	}
	if err != nil {
		return a.asUsageError(err)
	}
	if err = (storeChoice{a}).checkProfileStore(ctx); err != nil && !worksWithBrokenConfig(parsed) {
		return err
	}
	a.log = a.Log(LogStyle{Verbose: a.flags.Verbose, Color: bool(a.colors.stderr)})
	ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	stop := lifetime{a}.listen()
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(console{a}, (*admin.Console)(nil))
	parsed.BindTo(console{a}, (*Messages)(nil))
	parsed.BindTo(console{a}, (*mcp.Console)(nil))
	a.command = man.Path(parsed.Selected())
	err = parsed.Run(a)
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) &&
		(err == nil || errors.Is(err, context.Canceled)) {
		return errInterrupted
	}
	return err
}

// checkOutputFlags checks the output flags of the chosen command.
func checkOutputFlags(parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil || !node.Target.CanAddr() {
		return nil
	}
	if prints, ok := node.Target.Addr().Interface().(interface{ check() error }); ok {
		return prints.check()
	}
	return nil
}

// asUsageError turns an error of parsing or checking the command line into a usage error.
func (a *app) asUsageError(err error) error {
	var known *userError
	if errors.As(err, &known) {
		return err
	}
	todo := program + " --help lists the commands"
	if limit := settings.LimitPrefix; strings.Contains(err.Error(), limit) || strings.Contains(err.Error(), "PERDURE_LIMITS_") {
		return &userError{code: exitUsage, message: err.Error(), hint: limitsAdvice}
	}
	if strings.Contains(err.Error(), "unknown flag --temporal") {
		return &userError{code: exitUsage, message: err.Error(), hint: "perdure-temporal is the program that has this flag: docs/how-to/use-temporal.md"}
	}
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			todo = program + " " + man.Path(node) + " --help shows its arguments and flags"
		}
	}
	return &userError{code: exitUsage, message: commandParser{a}.meant(err), hint: todo}
}

// message writes one message line to stderr. Every argument is treated as untrusted data, since
// even an id may come from a server: it is filtered for the terminal unless it is painted.
func (a *app) message(format string, args ...any) {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch value := arg.(type) {
		case styled:
			safe[i] = string(value)
		case fmt.Stringer, error:
			safe[i] = a.text(fmt.Sprint(value))
		default:
			if safe[i] = arg; reflect.ValueOf(arg).Kind() == reflect.String {
				safe[i] = a.text(fmt.Sprint(arg))
			}
		}
	}
	fmt.Fprintf(a.Stderr, format+"\n", safe...)
}

// reportError prints an error and what to do about it.
func (a *app) reportError(err error) {
	if err == nil {
		return
	}
	var code exit
	if errors.As(err, &code) {
		return // the command has already printed its error
	}
	a.message("%s: %s", program, strings.ReplaceAll(a.text(nameFlags(err.Error())), "\n", "\n  "))
	advice := a.hint(err)
	a.message("  %s", strings.ReplaceAll(a.text(advice), "\n", "\n  "))
	var asked interface{ Request() string } // an error of a remote server
	if errors.As(err, &asked) && asked.Request() != "" && !strings.Contains(err.Error(), asked.Request()) {
		a.message("  request %s", a.oneLine(asked.Request(), cellChars))
	}
	if page := a.page(err); page != "" {
		a.message("  page    %s", a.oneLine(page, maxPageURL))
	}
}

// nameFlags adds the flags of this program to the advice in an error of a library, which knows no
// command line.
func nameFlags(text string) string {
	return strings.NewReplacer("use another directory", "use --data with another directory",
		"make the backup without the key", "omit --with-key").Replace(text)
}

// maxPageURL is the maximum length of a page address.
const maxPageURL = 300

// RestoreLine returns the command that restores a backup into a new data directory beside it.
func RestoreLine(backup string) string {
	return fmt.Sprintf("%s admin restore %s --data %s", program, quote(backup),
		quote(strings.TrimRight(backup, "/")+".restored"))
}

// text filters data for printing.
func (a *app) text(s string) string {
	if a.flags.Raw {
		return s
	}
	return printable(s)
}

// oneLine filters data for printing on one line of at most n characters.
func (a *app) oneLine(s string, n int) string {
	return clip(strings.Join(strings.Fields(a.text(s)), " "), n)
}

// stdoutWriter is stdout. It remembers the first error, so that a command whose output was lost
// does not succeed.
type stdoutWriter struct {
	w   io.Writer
	err error
}

// Write writes, unless an earlier write failed.
func (s *stdoutWriter) Write(p []byte) (int, error) {
	if s.err == nil {
		if _, err := s.w.Write(p); err != nil {
			s.err = fmt.Errorf("write to stdout: %w", err)
		}
	}
	return len(p), s.err
}

// read runs fn on the server of the data directory if one answers, else on the store, opened
// read-only.
func (a *app) read(ctx context.Context, fn func(Engine) error) error {
	return a.with(ctx, OpenOptions{Access: ServerOrRead}, fn)
}

// with opens an engine, runs fn, and closes it.
func (a *app) with(ctx context.Context, o OpenOptions, fn func(Engine) error) error {
	o.Log, o.StopTime, o.ModelOptions = a.log, a.flags.StopTimeout, a.flags.ModelOption
	o.Limits, o.TypedLimit = a.flags.Limits, typedLimit(a.typed)
	o.Dir, o.Database, o.Server = a.store()
	o.SharedFiles = a.flags.SharedFiles
	if o.Dir == "" && o.Server == "" && o.Access != ToolsOnly {
		return usageError("there is no default data directory, because this user has no home directory",
			"set one with --data or PERDURE_DATA")
	}
	if err := checkDataDir(o.Dir); err != nil {
		return err
	}
	var err error
	if o.Sandbox, err = a.sandbox(o.Sandbox); err != nil {
		return err
	}
	if o.Server != "" {
		o.Waiting = func(server string, failure error) { a.message("waiting for %s: %v; Ctrl-C stops", server, failure) }
	}
	reached := a.noteWait(connectWait(o))
	eng, err := a.Open(ctx, o)
	reached()
	if err != nil {
		return a.openError(ctx, o, err)
	}
	err = fn(eng)
	defer lifetime{a}.runWithin(exitReason{code: exitCode(err), err: err})() // closing counts as a stop, too
	return errors.Join(err, eng.Close())
}

// pause waits for d, or until ctx ends. It returns the cause when ctx ended first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
