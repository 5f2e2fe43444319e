package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/subagent"
)

// The intervals of the server under test. They make pauses that exceed the lease frequent.
const (
	chaosBeat  = 250 * time.Millisecond
	chaosLease = time.Second
	chaosDrain = 2 * time.Second
	chaosScan  = 500 * time.Millisecond // scan for work of a lost worker
)

// chaosOutage is how long the driver of chaos waits for an unavailable server.
const chaosOutage = 90 * time.Second

// chaosPart runs a process of "perdure chaos" besides the driver.
func (p Program) chaosPart(ctx context.Context, part cli.ChaosChild) error {
	addr := os.Getenv(chaos.LedgerVariable)
	switch part.Name {
	case cli.ChaosLedger:
		ctx, stop := waitStdinClosed(ctx, os.Stdin)
		defer stop()
		ledger := chaos.Ledger{Path: part.File}
		return ledger.Run(ctx, func(addr string) { fmt.Fprintln(part.Out, addr) })
	case cli.ChaosEffect:
		return chaos.AppendLine(ctx, part.Ledger,
			chaos.Line{Effect: part.Effect, Class: string(perdure.AtMostOnce), PID: os.Getpid()})
	}
	ctx, stop := waitStdinClosed(ctx, os.Stdin)
	defer stop()
	child := chaosChild{Dir: part.Dir, Ledger: addr, Database: os.Getenv("PERDURE_DATABASE"),
		Addr: os.Getenv("PERDURE_LISTEN"), Token: os.Getenv("PERDURE_TOKEN"), Sabotage: part.Sabotage, Log: part.Log}
	scheduler, err := p.scheduler(cli.Writing, child.Database)
	if err != nil {
		return err
	}
	return child.run(ctx, scheduler)
}

// waitStdinClosed ends the context when the parent process is gone.
func waitStdinClosed(ctx context.Context, in io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // nothing is ever sent
		cancel()
	}()
	return ctx, cancel
}

// chaosChild is the server under test: a complete server with tools that write to the ledger. It
// has no limits on executions and resumes, which have tests of their own.
type chaosChild struct {
	Dir      string // the data directory
	Database string // as in cli.Opening
	Addr     string
	Token    string
	Ledger   string // address of the ledger
	Sabotage string // how to violate the guarantees; empty: not at all
	Log      *slog.Logger
}

// run serves until ctx ends.
func (c chaosChild) run(ctx context.Context, scheduler Scheduler) (err error) {
	if c.Ledger == "" || c.Addr == "" || c.Token == "" {
		return fmt.Errorf("%w start: only perdure chaos starts this", perdure.Invalid)
	}
	opening := cli.OpenOptions{Access: cli.Writing, Dir: c.Dir, Database: c.Database, AskModels: true, Serve: true,
		Log: c.Log}
	st, err := c.openStore(ctx, opening)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	data, err := openStorage(ctx, opening, st)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	data.Shared = true // all servers of a run are on one machine
	spaces := newWorkspaces(st, c.Log)
	defer func() { err = errors.Join(err, spaces.close()) }()
	tools := tool.NewRegistry(slices.Concat(core.Tools(), file.Tools(), background.Tools(background.Config{}),
		subagent.Tools(), chaosTools(c.Ledger, c.Sabotage))...)
	// Commands write to the ledger with this program, from inside their sandbox. Where the machine
	// cannot enforce a sandbox they run without one, because they come from our own script.
	opening.Sandbox = cli.Sandbox{Unsafe: true, Reads: []string{self()}}
	if err := addShell(tools, opening, spaces); err != nil {
		return err
	}
	if bash, ok := tools.Get(cli.ShellTool); ok {
		tools.Register(bash) // for every session
	}
	cfg := local.Config{
		Store:   st,
		Workers: local.Workers{Shared: c.Database != "", Beat: chaosBeat, Lease: chaosLease, OrphanScan: chaosScan},
		Model:   newModels(opening), Tools: tools, Ports: local.Ports{Files: spaces.files}, Log: c.Log,
		Limits: local.Limits{DeferAbove: -1, MaxExecutions: -1, NoProgress: -1}, Timing: local.Timing{Drain: chaosDrain}, Storage: data.Storage,
		Outbound: local.Outbound{PerMinute: -1}, // chaos runs more commands than any limit allows
	}
	eng, work, err := scheduler.Open(ctx, cfg)
	if err != nil {
		return err
	}
	listener, err := listen(cli.ServeOptions{Addr: c.Addr})
	if err != nil {
		return err
	}
	door := newAPIServer(sabotagedStore(eng, c.Sabotage), st, c.Dir, c.Log)
	if err := door.openSocket(); err != nil {
		return errors.Join(err, listener.Close())
	}
	door.add(listener, api.Config{Token: c.Token})
	return door.serveWorkers(ctx, door.renewWorker(work,
		func(ctx context.Context) (engine.Engine, func(context.Context) error, error) {
			eng, work, err := scheduler.Open(ctx, cfg)
			return sabotagedStore(eng, c.Sabotage), work, err
		}))
}

// openStore opens the store without the disk reserve for cancels, which has tests of its own.
func (c chaosChild) openStore(ctx context.Context, o cli.OpenOptions) (store.Store, error) {
	if c.Database != "" {
		return openDatabase(ctx, o)
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: c.Dir, Program: "perdure"})
}

// The ways in which the server under test violates its guarantees, so that tests can check that
// chaos detects it.
const (
	sabotageClaim   = "claim"   // at-most-once calls run again after a crash
	sabotageSettle  = "settle"  // the reported result of a task changes later
	sabotageDeliver = "deliver" // results are not delivered
)

// sabotagedStore returns an engine that reports wrong data to clients, or eng itself where word
// asks for none.
func sabotagedStore(eng engine.Engine, word string) engine.Engine {
	if word == sabotageSettle || word == sabotageDeliver {
		return wrongEngine{eng, word}
	}
	return eng
}

// wrongEngine reports wrong data to clients.
type wrongEngine struct {
	engine.Engine
	sabotage string
}

// wrongEngineTasks implements engine.Tasks for wrongEngine.
type wrongEngineTasks struct {
	engine.Tasks
	wrongEngine
}

func (l wrongEngine) Tasks() engine.Tasks { return wrongEngineTasks{l.Engine.Tasks(), l} }

// ListWhere lists tasks, with summaries that differ between processes.
func (l wrongEngineTasks) ListWhere(ctx context.Context, q engine.TaskQuery) ([]perdure.Task, error) {
	tasks, err := l.Engine.Tasks().ListWhere(ctx, q)
	for i := range tasks {
		if l.sabotage == sabotageSettle {
			tasks[i].Summary += fmt.Sprintf(" (%d)", os.Getpid())
		}
	}
	return tasks, err
}

// Events reads a journal without its deliveries.
func (l wrongEngine) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	events, err := l.Engine.Events(ctx, id, after, limit)
	for i, event := range events {
		if _, delivers := event.Fact.(perdure.TaskDelivered); delivers && l.sabotage == sabotageDeliver {
			events[i].Fact = perdure.SessionUpdated{}
		}
	}
	return events, err
}

// dialChaos connects to the server under test. With once, requests are not retried.
func dialChaos(addr, token string, once bool) (engine.Engine, error) {
	cfg := remote.Config{URL: "http://" + addr, Token: token, Retry: chaosOutage}
	if once {
		cfg.Retry = -1
	}
	return remote.New(cfg)
}

// freeAddr returns an address of this machine that nobody listens on.
func freeAddr() (string, error) {
	listener, err := listen(cli.ServeOptions{Addr: "127.0.0.1:0"})
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
