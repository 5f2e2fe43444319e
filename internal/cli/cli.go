// Package cli is the command line of perdure: noun, then verb, over an engine that main opens.
//
// It may import the root, engine, docs, internal/redact, kong, and its own rooms admin, demo, form, man, sprout and storm; what it may not import comes as
// functions in a [World]. The one thing to know: data goes to stdout and talk to stderr (C1), and no text of a
// journal reaches a terminal before [plain] has seen it (C18).
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

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/cli/demo"
	"github.com/perdure/perdure/internal/cli/mcp"
	"github.com/perdure/perdure/internal/cli/storm"
)

const program = "perdure"

// about is what the help says first.
const about = "A durable runtime for the tool calls of AI agents: what was claimed is not forgotten, what was done is not repeated."

// World is what main gives the command line: its arguments and streams, and the ways to what it may not import.
type World struct {
	Args     []string // without the program's name
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Terminal Terminal
	Signals  <-chan os.Signal         // nil: none come
	Env      func(name string) string // reads the environment; nil: nothing is set
	DataDir  string                   // the default of --data
	Version  Version

	// Log makes the logger of a command.
	Log func(LogStyle) *slog.Logger
	// Open opens an engine.
	Open func(context.Context, Opening) (Engine, error)
	// TryModel asks a model for its smallest answer. Invalid: the name says no model of this build, or its script cannot be read.
	TryModel func(ctx context.Context, name string) (Trial, error)
	// SameDatabase reports whether two URLs lead to one database. What cannot be found out is not the same.
	SameDatabase func(ctx context.Context, one, other string) bool
	// Diagnose looks for what keeps perdure from working with a data directory. It changes nothing.
	Diagnose   func(ctx context.Context, dataDir string) []Check
	Supervised // of this machine

	// Serve holds a data directory and answers requests until ctx ends. The error is that of Open, or of the address.
	Serve func(context.Context, Serving) error

	Demo      demo.Show // Program, Open and Stage are set
	DemoChild func(context.Context, DemoWork) error

	Admin  admin.Hands
	WayOut WayOut

	Wire Wire                         // nil: there is no way to a server
	Keys func() (func() error, error) // lets keys of the terminal come one by one; what it returns gives the terminal back. nil: in lines

	// Edit lets a person change a file in an editor, which may be a command line, and returns when they are done. nil: there are no editors.
	Edit func(ctx context.Context, editor, file string) error
	// Forget drops what was typed on the terminal and nobody has read yet, so that it is no answer to what is asked next. nil: it stays.
	Forget func()

	MCP       mcp.Hands
	Chaos     storm.Storm // Program, Dial and Addr are set
	ChaosPart func(context.Context, ChaosPart) error
}

// Terminal says which streams are a terminal.
type Terminal struct{ Stdin, Stdout, Stderr bool }

// LogStyle says what is logged, and how.
type LogStyle struct {
	Verbose bool // everything; false: warnings and errors
	Color   bool
}

// commandLine is the whole grammar: each noun is one field, and lives in the file of its name.
type commandLine struct {
	Flags flags `embed:""`

	Run     runCommand     `cmd:"" help:"Speak with an agent, and wait until its work has come home."`
	PS      psCommand      `cmd:"" name:"ps" help:"Show what goes on, by what is to be done about it."`
	Log     taskLog        `cmd:"" help:"Print what a task wrote; the same as task log."`
	Attach  attachCommand  `cmd:"" help:"Show what a task writes and send it what is typed. Leaving it never ends it."`
	Cancel  taskCancel     `cmd:"" help:"End a task, and everything it started; the same as task cancel."`
	Resolve taskResolve    `cmd:"" help:"Say what became of a task or call whose outcome is unknown; the same as task resolve."`
	Session sessionCommand `cmd:"" help:"Conversations: new, list, show, send, tail, label, interrupt, pause, resume, fork, export, import, delete."`
	Event   eventCommand   `cmd:"" help:"The journal of a session: list, tail, show, replay."`
	Task    taskCommand    `cmd:"" help:"Work that outlives a turn: list, show, log, watch, attach, input, message, detach, delivery, drain, cancel, resolve."`
	Call    callCommand    `cmd:"" help:"The effect ledger of a session: list, show, resolve."`

	Approval approvalCommand `cmd:"" help:"Questions whether calls may run: list, show, approve, deny."`
	Approve  approvalApprove `cmd:"" help:"Let a call run that waits for a yes; the same as approval approve."`

	Schedule scheduleCommand `cmd:"" help:"Work at moments to come: create, list, show, next, explain, trigger, pause, resume, backfill, delete."`
	Budget   budgetCommand   `cmd:"" help:"What may be spent: set, show, ledger, resume, remove."`
	Cost     costCommand     `cmd:"" help:"What was spent: report."`
	Webhook  webhookCommand  `cmd:"" help:"Send what happens to a URL: create, list, show, change, test, deliveries, redeliver, delete."`

	File   fileCommand   `cmd:"" help:"The files of a session: ls, cat, put, get, mv, rm."`
	Value  valueCommand  `cmd:"" help:"What a session keeps by name: get, set, list, delete."`
	Secret secretCommand `cmd:"" help:"What a session's tools may use and nobody may read: set, rotate, list, delete."`

	Resource resourceCommand `cmd:"" help:"What stands beside a session: list, show, release."`

	Tool       toolCommand       `cmd:"" help:"The tools: list, show, call, init."`
	Agent      agentCommand      `cmd:"" help:"Agents that sessions can be made of: list, show, versions, apply, delete."`
	Harness    harnessCommand    `cmd:"" help:"What agents stand on: list, show, versions, apply, delete."`
	Connection connectionCommand `cmd:"" help:"MCP servers whose tools agents may use: list, test."`
	Provider   providerCommand   `cmd:"" help:"Where models are asked: list, test."`

	Token   tokenCommand   `cmd:"" help:"Who may ask a server: create, list, revoke."`
	Audit   auditCommand   `cmd:"" help:"Who did what is to be answered for: list."`
	Egress  egressCommand  `cmd:"" help:"Which hosts tools may reach: list, allow, deny, test."`
	Admin   admin.Commands `cmd:"" help:"Look after a data directory: backup, restore, verify, migrate, gc, rotate-key."`
	MCP     mcp.Commands   `cmd:"" name:"mcp" help:"Tools for MCP clients, and durable calls for MCP servers: serve, proxy, config, test."`
	API     apiCommand     `cmd:"" name:"api" help:"Send one request to the HTTP API, and print the answer."`
	Config  configCommand  `cmd:"" help:"What is set, and where: list, check, schema."`
	Serve   serveCommand   `cmd:"" help:"Serve a data directory over HTTP, until it is stopped."`
	Demo    demoCommand    `cmd:"" help:"See it at work: crash, agents, approvals."`
	Chaos   chaosCommand   `cmd:"" help:"Kill a server again and again while sessions are in work, and judge what is left: yours, or this program's."`
	Part    chaosPart      `cmd:"" hidden:"" name:"chaos-part" help:"The processes that chaos starts."`
	Doctor  doctorCommand  `cmd:"" help:"Say what is fine here, and how to mend what is not."`
	Version versionCommand `cmd:"" help:"Say which version this is."`
	Help    helpCommand    `cmd:"" help:"Help on a command or a topic: configuration, effects, environment, exit-codes, formatting, recovery."`

	Completion completionCommand `cmd:"" help:"Print what completes command lines in a shell, ids included."`
	Complete   completeCommand   `cmd:"" hidden:"" name:"__complete" help:"What a shell asks to complete a command line."`
}

// flags are those of every command.
type flags struct {
	Data       string `help:"The data directory." placeholder:"DIR" env:"PERDURE_DATA" type:"path" default:"${data}"`
	Database   string `help:"Keep sessions in this Postgres database, postgres://USER@HOST/NAME. Servers on several machines may share it; what they keep on their own disk stays in the data directory." placeholder:"URL" env:"PERDURE_DATABASE"`
	Server     string `help:"Ask this server instead of a data directory: http://HOST:PORT, or unix:///PATH. Its token is read from PERDURE_TOKEN." placeholder:"URL" env:"PERDURE_SERVER"`
	Color      string `help:"Colours: auto, always or never. NO_COLOR turns them off, too." placeholder:"WHEN" enum:"auto,always,never" default:"auto"`
	TimeFormat string `help:"How tables write moments: relative, rfc3339 (in UTC) or local. JSON always has RFC 3339." placeholder:"FORM" enum:"relative,rfc3339,local" default:"relative"`
	Raw        bool   `help:"Print control characters of the data as they are, also on a terminal."`
	NoInput    bool   `help:"Never ask, never wait for input."`
	Profile    string `help:"The profile of the configuration files that counts." placeholder:"NAME" env:"PERDURE_PROFILE"`
	Verbose    bool   `help:"Log what happens inside, on stderr."`

	StopTimeout time.Duration `name:"stop-timeout" help:"How long the whole stop may take after Ctrl-C or SIGTERM; then the process ends, and what was not done goes on with the next start. A second signal ends it at once." placeholder:"DURATION" env:"PERDURE_STOP_TIMEOUT" default:"10s"`
}

// app is one command in work.
type app struct {
	World
	flags    flags
	typed    map[string]bool // which of them stand on the command line
	paint    paint
	moves    bool // stdout is a terminal whose cursor can be moved (C3)
	log      *slog.Logger
	stdin    io.Reader
	out      *sink // stdout
	ctrlC    ctrlC
	kong     *kong.Kong
	settings configured   // what the configuration files say
	end      func(error)  // ends the command's context
	left     chan leaving // capacity 1: why the command is not waited for any more
	stopping atomic.Bool  // a signal has ended the command's context
	stopCode atomic.Int32 // the exit code of a command that a signal ended
	keys     keys
}

// Main runs one command and returns its exit code. It never panics and never exits by itself. A command that was told to
// stop and does not end is left behind: the caller then ends the process, and with it whatever the command waits for.
func Main(ctx context.Context, w World) int {
	if w.Env == nil {
		w.Env = func(string) string { return "" }
	}
	a := &app{World: w, out: &sink{w: w.Stdout}, stdin: w.Stdin, left: make(chan leaving, 1)}
	a.Keys = a.keys.taking(w.Keys)
	a.stopCode.Store(exitInterrupted)
	ended := make(chan int, 1) // of one command, also when nobody waits for it any more
	go func() { ended <- a.main(ctx) }()
	select {
	case code := <-ended:
		return code
	case l := <-a.left:
		a.leave(l)
		return l.code
	}
}

// main runs the command, and returns its exit code.
func (a *app) main(ctx context.Context) (code int) {
	defer func() {
		if p := recover(); p != nil {
			a.complain(&fault{
				code: exitError, what: fmt.Sprintf("a bug in %s: %v", program, p),
				todo: "report it with what you typed; what was acknowledged is durable, and the same command again does no harm",
			})
			code = exitError
		}
	}()
	err := a.run(ctx)
	if err == nil {
		err = a.out.err
	}
	a.complain(err)
	return exitCode(err)
}

// run parses the arguments and runs the command that they name.
func (a *app) run(ctx context.Context) error {
	if len(a.Args) == 0 {
		a.Args = []string{"--help"}
	}
	a.settings = a.configure()
	parsed, given, err := a.parse(a.grammar())
	if err == nil && parsed == nil {
		return nil // help was printed
	}
	if given == nil {
		return err
	}
	a.flags, a.typed = *given, typedFlags(parsed)
	a.paint = newPaint(given.Color, a.Terminal, a.Env)
	a.moves = a.Terminal.Stdout && a.Env("TERM") != "dumb"
	if err == nil {
		err = errors.Join(a.settings.obeyed(parsed), a.nowhere(), formOf(parsed), a.stops())
	}
	if err != nil {
		return a.misused(err)
	}
	if err = a.contradicted(ctx); err != nil && !helps(parsed) {
		return err
	}
	a.log = a.Log(LogStyle{Verbose: a.flags.Verbose, Color: bool(a.paint.talk)})
	ctx, a.end = context.WithCancelCause(ctx)
	defer a.end(nil)
	stop := a.listen()
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(desk{a}, (*admin.Desk)(nil))
	parsed.BindTo(desk{a}, (*mcp.Desk)(nil))
	err = parsed.Run(a)
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) && (err == nil || errors.Is(err, context.Canceled)) {
		return errInterrupted
	}
	return err
}

func (a *app) options(exit func(int)) []kong.Option {
	return []kong.Option{
		kong.Name(program), kong.Description(about), kong.Writers(a.out, a.Stderr), kong.Exit(exit),
		kong.Vars{"data": a.DataDir},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	}
}

// formOf checks how the chosen command is to print.
func formOf(parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil || !node.Target.CanAddr() {
		return nil
	}
	if prints, ok := node.Target.Addr().Interface().(interface{ check() error }); ok {
		return prints.check()
	}
	return nil
}

// misused is a command line that says nothing we know.
func (a *app) misused(err error) error {
	var known *fault
	if errors.As(err, &known) {
		return err
	}
	todo := program + " --help lists the commands"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			todo = node.FullPath() + " --help says what it takes"
		}
	}
	return &fault{code: exitUsage, what: err.Error(), todo: todo}
}

// say writes a line of talk to stderr. What it is about may be any data, also an id that a server made up: each argument is
// written as it may be printed, but for what is painted.
func (a *app) say(format string, args ...any) {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch value := arg.(type) {
		case painted:
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

// complain says what went wrong, and what to do about it (C14).
func (a *app) complain(err error) {
	if err == nil {
		return
	}
	var code exit
	if errors.As(err, &code) {
		return // the command has said it
	}
	a.say("%s: %s", program, strings.ReplaceAll(a.text(err.Error()), "\n", "\n  "))
	advice := a.advice(err)
	a.say("  %s", strings.ReplaceAll(a.text(advice), "\n", "\n  "))
	var asked interface{ Request() string } // of whoever answers from afar
	if errors.As(err, &asked) && asked.Request() != "" && !strings.Contains(err.Error(), asked.Request()) {
		a.say("  request %s", a.line(asked.Request(), cellChars))
	}
	if page := a.page(err, advice); page != "" {
		a.say("  page    %s", a.line(page, pageChars))
	}
}

// pageChars is how long the address of a page may be.
const pageChars = 300

// advice is what to do about an error: what it says itself, or what its kind asks for.
func (a *app) advice(err error) string {
	var f *fault
	if errors.As(err, &f) && f.todo != "" {
		return f.todo
	}
	var elsewhere *Elsewhere
	if errors.As(err, &elsewhere) {
		return elsewhere.Todo
	}
	var kept interface{ Backup() string } // of a folder that is never written
	if errors.As(err, &kept) {
		return RestoreLine(kept.Backup())
	}
	own, doctor := program+" "+a.place(), strings.TrimSpace(program+" doctor "+a.place())
	switch exitCode(err) {
	case exitUsage:
		return program + " --help lists the commands"
	case exitDenied:
		return "PERDURE_TOKEN holds the token; the server keeps its own in the file token of its data directory"
	case exitNotFound:
		return own + "session list and task list show what is there"
	case exitConflict:
		return "what it names stands in the way, and stays as it is: change that, or ask for something else"
	case exitUnreachable:
		return "try it again; " + doctor + " looks for what is wrong"
	case exitTimeout:
		return "what was begun is durable: look again later, or give it more time"
	case exitFailed:
		return own + "event list last and task list say what happened"
	case exitStorage:
		return "free some space, or make the data directory writable, and do it again: what was acknowledged is kept"
	}
	return doctor + " looks for what is wrong; --verbose logs what happens inside"
}

// RestoreLine is the command that makes a data directory of a backup, beside it.
func RestoreLine(backup string) string {
	return fmt.Sprintf("%s admin restore %s --data %s", program, quote(backup), quote(strings.TrimRight(backup, "/")+".restored"))
}

// text returns data as it may be printed.
func (a *app) text(s string) string {
	if a.flags.Raw {
		return s
	}
	return plain(s)
}

// line returns data as it may be printed in one line of at most n characters.
func (a *app) line(s string, n int) string {
	return clip(strings.Join(strings.Fields(a.text(s)), " "), n)
}

// sink is stdout; it keeps the first error, so that output which nobody got is not a success.
type sink struct {
	w   io.Writer
	err error
}

// Write writes, unless an earlier write failed.
func (s *sink) Write(p []byte) (int, error) {
	if s.err == nil {
		if _, err := s.w.Write(p); err != nil {
			s.err = fmt.Errorf("write to stdout: %w", err)
		}
	}
	return len(p), s.err
}

// read asks whoever holds the data directory, or else opens the store read-only, and runs fn.
func (a *app) read(ctx context.Context, fn func(Engine) error) error {
	return a.with(ctx, Opening{Access: Asking}, fn)
}

// with opens an engine, runs fn, and closes it.
func (a *app) with(ctx context.Context, o Opening, fn func(Engine) error) error {
	o.Log, o.StopTime = a.log, a.flags.StopTimeout
	o.Dir, o.Database, o.Server = a.store()
	if o.Dir == "" && o.Server == "" && o.Access != ToolsOnly {
		return misuse("there is no data directory: this system names no home", "name one with --data or PERDURE_DATA")
	}
	var err error
	if o.Sandbox, err = a.sandbox(o.Sandbox); err != nil {
		return err
	}
	eng, err := a.Open(ctx, o)
	if err != nil {
		return a.cannotOpen(ctx, o, err)
	}
	err = fn(eng)
	defer a.within(leaving{code: exitCode(err), err: err})() // what is closed is told to stop, too
	return errors.Join(err, eng.Close())
}

func (a *app) cannotOpen(ctx context.Context, o Opening, err error) error {
	switch {
	case errors.As(err, new(*Elsewhere)), errors.As(err, new(interface{ Backup() string })):
		return err // with its advice
	case o.Access == Writing && errors.Is(err, perdure.Conflict):
		o.Access = Reading
		beside, refused := a.Open(ctx, o)
		if refused != nil { // a newer version wrote it
			return &fault{err: err, what: err.Error(), todo: "--data names another directory; " + program + " version says which one this is"}
		}
		return errors.Join(&fault{err: err, what: err.Error(), todo: "reading commands (list, show, log, tail, watch) work beside it"}, beside.Close())
	case o.Access == Asking && errors.Is(err, perdure.NotFound):
		return &fault{err: err, what: err.Error(), todo: fmt.Sprintf("%s run %s--model scripted:FILE PROMPT begins a session", program, a.place())}
	}
	return err
}

// pause waits for d. It returns why ctx ended, if that came first.
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
