// Package app is the program: it wires adapters to the command line of internal/cli.
//
// It may import anything. The one thing to know: the first line of [Main] turns the process into
// the supervisor of a command when it was started as one.
package app

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
	"slices"
	"syscall"
	_ "time/tzdata" // schedules have zones, also where the machine has no data of them

	"github.com/lmittmann/tint"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/cli/chaoscmd"
	"github.com/perdure/perdure/internal/cli/demo"
	"github.com/perdure/perdure/internal/cli/mcp"
	_ "github.com/perdure/perdure/internal/gcstart" // commands are short
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/tool/shell"
)

// Main runs the program and exits the process.
func Main(p Program) {
	shell.Supervise()
	os.Exit(p.run())
}

// run runs the command that the arguments name, and returns its exit code.
func (p Program) run() int {
	signals := make(chan os.Signal, 2) // capacity 2: a Ctrl-C and the next one, before anything listens
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	known := secretsOf(os.Getenv, p.SecretVariables...)
	terminal := cli.Terminal{Stdin: isTerminal(os.Stdin), Stdout: isTerminal(os.Stdout), Stderr: isTerminal(os.Stderr)}
	w := p.dependencies(terminal, known)
	w.Args, w.Stdin, w.Stdout, w.Stderr, w.Signals, w.Env = os.Args[1:], os.Stdin, os.Stdout, os.Stderr, signals,
		os.Getenv
	return cli.Main(context.Background(), w)
}

// dependencies returns the World without the parts that differ per process: arguments, streams,
// signals and environment.
func (p Program) dependencies(terminal cli.Terminal, known *redact.Set) cli.Dependencies {
	return cli.Dependencies{
		Program: p.CommandLine, Terminal: terminal, DataDir: dataDir(), Version: p.version(),
		Log: func(style cli.LogStyle) *slog.Logger {
			return newLog(os.Stderr, style, terminal.Stderr, known)
		},
		Open: func(ctx context.Context, o cli.OpenOptions) (cli.Engine, error) {
			o.Known = known
			return p.open(ctx, o)
		},
		Serve: func(ctx context.Context, s cli.ServeOptions) error {
			s.SampleStores = known
			return p.serve(ctx, s)
		},
		TestModel: func(ctx context.Context, name string, options []string) (engine.ProviderTest, error) {
			return testModel(ctx, name, options, known)
		},
		SameDatabase: sameDatabase,
		Diagnose:     p.diagnose, Supervised: supervised{}, Servers: servers{},
		Admin: admin.Operations{Garbage: collectGarbage, RotateKey: rotateKey, Schema: schemaOf, Migrate: migrate,
			Scheduler: schedulerOf, ChangeScheduler: changeScheduler},
		Egress:    cli.EgressRules{Rules: readRules, SetRules: writeRules, Test: testEgress},
		Demo:      demo.Options{Program: self(), Open: openDemo, OpenRuntime: openDemoRuntime, FreeAddr: freeAddr},
		DemoChild: runDemoChild,
		Connect:   connect, OpenBrowser: openBrowser, RawKeys: terminalKeys, Edit: edit, DiscardInput: discardInput,
		MCP: mcp.Operations{
			Program: self(),
			Serve: func(ctx context.Context, s mcp.ServeOptions) error {
				return p.serveMCP(ctx, s, mcpLog(terminal, known))
			},
			Proxy: func(ctx context.Context, o mcp.ProxyOptions) error { return proxyMCP(ctx, o, mcpLog(terminal, known)) },
			Test: func(ctx context.Context, t mcp.TestOptions) (mcp.TestResult, error) {
				return testMCP(ctx, t, mcpLog(terminal, known))
			},
			Keep: func(ctx context.Context, k mcp.KeepOptions) error { return keepMCP(ctx, k, mcpLog(terminal, known)) },
		},
		Chaos:     chaoscmd.Run{Program: self(), Dial: dialChaos, Addr: freeAddr, OpenScheduler: p.OpenChaos},
		ChaosPart: p.chaosPart,
	}
}

// mcpLog returns the log of a process that serves MCP clients.
func mcpLog(terminal cli.Terminal, known *redact.Set) *slog.Logger {
	return newLog(os.Stderr, cli.LogStyle{}, terminal.Stderr, known)
}

// secretsOf returns the secrets in the environment, which no log may show (RD5). more are variables
// that have one.
func secretsOf(getenv func(string) string, more ...string) *redact.Set {
	known := []string{getenv(openaiKey), getenv(anthropicKey), getenv("PERDURE_TOKEN"), passwordIn(getenv("PERDURE_DATABASE"))}
	for _, name := range more {
		known = append(known, getenv(name))
	}
	return redact.NewSet(known...)
}

// passwordIn returns the password in the URL of a database; empty: there is none.
func passwordIn(database string) string {
	u, err := url.Parse(database)
	if err != nil || u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// newLog returns a log as text on a terminal, and as JSON otherwise. Known secrets, and the values
// of secret-looking names, are masked (RD6).
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
	if err != nil { // the default limits are valid
		panic(err)
	}
	return slog.New(telemetry.NewLogHandler(redact.Logs(to, shown)))
}

// isTerminal reports whether f is a character device other than the null device.
func isTerminal(f *os.File) bool {
	found, err := f.Stat()
	if err != nil || found.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(found, null)
}

// dataDir returns the default data directory of this user (XDG). It is empty when the user has no
// home directory.
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

// version returns the version of the build.
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
		case "vcs.time":
			v.Date = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// version returns the version of a program, with those of its modules.
func (p Program) version() cli.Version {
	v := version()
	build, ok := debug.ReadBuildInfo()
	for i := 0; ok && i < len(build.Deps); i++ {
		if m := build.Deps[i]; slices.Contains(p.Modules, m.Path) {
			v.Modules = append(v.Modules, m.Path+" "+m.Version)
		}
	}
	return v
}

// self returns the path of this program, to start it again.
func self() string {
	name, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return name
}

// openDemo opens the data of a demo read-only.
func openDemo(ctx context.Context, dir string) (engine.Engine, io.Closer, error) {
	eng, err := Program{}.open(ctx, cli.OpenOptions{Access: cli.Reading, Dir: dir})
	return eng, eng, err
}

func runDemoChild(ctx context.Context, w cli.DemoChildOptions) error {
	return demoChild{Dir: w.Dir, Finish: w.Finish, Pages: w.Pages, Out: w.Out, Log: w.Log}.run(ctx)
}
