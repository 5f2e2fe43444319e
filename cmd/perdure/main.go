// Command perdure is a durable runtime for the tool calls of AI agents, on the command line.
//
// It may import anything, and does nothing but wire adapters to internal/cli. The one thing to know: the first
// line of main makes this program the supervisor of a command when it was started as one.
package main

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // schedules have zones, also where the machine has no data of them

	"github.com/lmittmann/tint"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/cli/demo"
	"github.com/perdure/perdure/internal/cli/mcp"
	"github.com/perdure/perdure/internal/cli/storm"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/tool/shell"
)

func main() {
	shell.Supervise()
	os.Exit(run())
}

// run runs the command that the arguments name, and returns its exit code.
func run() int {
	signals := make(chan os.Signal, 2) // a Ctrl-C and the one after it, while nobody listens yet
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	known := secretsOf(os.Getenv)
	terminal := cli.Terminal{Stdin: isTerminal(os.Stdin), Stdout: isTerminal(os.Stdout), Stderr: isTerminal(os.Stderr)}
	w := wired(terminal, known)
	w.Args, w.Stdin, w.Stdout, w.Stderr, w.Signals, w.Env = os.Args[1:], os.Stdin, os.Stdout, os.Stderr, signals, os.Getenv
	return cli.Main(context.Background(), w)
}

// wired is the world of the command line, but for what each process has of its own: arguments, streams, signals, environment.
func wired(terminal cli.Terminal, known *redact.Set) cli.World {
	return cli.World{
		Terminal: terminal, DataDir: dataDir(), Version: version(),
		Log: func(style cli.LogStyle) *slog.Logger {
			return newLog(os.Stderr, style, terminal.Stderr, known)
		},
		Open: func(ctx context.Context, o cli.Opening) (cli.Engine, error) {
			o.Known = known
			return open(ctx, o)
		},
		Serve: func(ctx context.Context, s cli.Serving) error {
			s.Known = known
			return serve(ctx, s)
		},
		TryModel:     func(ctx context.Context, name string) (cli.Trial, error) { return tryModel(ctx, name, known) },
		SameDatabase: sameDatabase,
		Diagnose:     diagnose, Supervised: supervised{},
		Admin:     admin.Hands{Garbage: garbage, RotateKey: rotateKey, Schema: schemaOf, Migrate: migrate},
		WayOut:    cli.WayOut{Rules: readRules, SetRules: writeRules, Try: tryWayOut},
		Demo:      demo.Show{Program: self(), Open: openDemo, Stage: stageDemo},
		DemoChild: runDemoChild,
		Wire:      reach, Keys: terminalKeys, Edit: edit, Forget: dropTyped,
		MCP: mcp.Hands{
			Serve: func(ctx context.Context, s mcp.Serving) error { return serveMCP(ctx, s, mcpLog(terminal, known)) },
			Proxy: func(ctx context.Context, p mcp.Proxying) error { return proxyMCP(ctx, p, mcpLog(terminal, known)) },
			Test:  testMCP,
			Keep:  func(ctx context.Context, k mcp.Keeping) error { return keepMCP(ctx, k, mcpLog(terminal, known)) },
		},
		Chaos:     storm.Storm{Program: self(), Dial: dialChaos, Addr: freeAddr},
		ChaosPart: chaosParts,
	}
}

// mcpLog is the log of what serves MCP clients.
func mcpLog(terminal cli.Terminal, known *redact.Set) *slog.Logger {
	return newLog(os.Stderr, cli.LogStyle{}, terminal.Stderr, known)
}

// secretsOf are the secrets that this process was given, which no log may show (RD5, C21).
func secretsOf(getenv func(string) string) *redact.Set {
	return redact.NewSet(getenv(openaiKey), getenv(anthropicKey), getenv("PERDURE_TOKEN"), passwordIn(getenv("PERDURE_DATABASE")))
}

// passwordIn is the password in a database's URL; empty: it has none, or is no URL.
func passwordIn(database string) string {
	u, err := url.Parse(database)
	if err != nil || u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// newLog writes for people on a terminal, and JSON otherwise, without secrets and what stands under the names of some (RD6).
func newLog(w io.Writer, style cli.LogStyle, terminal bool, secrets *redact.Set) *slog.Logger {
	level := slog.LevelWarn
	if style.Verbose {
		level = slog.LevelDebug
	}
	var to slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	if terminal {
		to = tint.NewTextHandler(w, &tint.Options{Level: level, NoColor: !style.Color})
	}
	shown, err := redact.New(redact.Config{Known: secrets})
	if err != nil { // the bounds are the defaults
		panic(err)
	}
	return slog.New(telemetry.Logs(redact.Logs(to, shown)))
}

// isTerminal reports whether a person is at the other end: a character device that is not the null device.
func isTerminal(f *os.File) bool {
	found, err := f.Stat()
	if err != nil || found.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(found, null)
}

// dataDir is the folder for the data of this user (XDG). It is empty where the system names no home.
func dataDir() string {
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "perdure")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "perdure")
}

// version is what the build says of itself.
func version() cli.Version {
	v := cli.Version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// self is this program, to be started again.
func self() string {
	name, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return name
}

// openDemo opens what the demo left behind, for reading.
func openDemo(ctx context.Context, dir string) (engine.Engine, io.Closer, error) {
	eng, err := open(ctx, cli.Opening{Access: cli.Reading, Dir: dir})
	return eng, eng, err
}

func runDemoChild(ctx context.Context, w cli.DemoWork) error {
	return demoChild{Dir: w.Dir, Finish: w.Finish, Out: w.Out, Log: w.Log}.run(ctx)
}
