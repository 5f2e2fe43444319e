package main

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

// The clocks of the server that chaos disturbs. A pause that is longer than the lease comes often this way (LG20).
const (
	chaosBeat  = 250 * time.Millisecond
	chaosLease = time.Second
	chaosDrain = 2 * time.Second
	chaosScan  = 500 * time.Millisecond // for what another one lost
)

// chaosOutage is how long the driver of chaos waits for a server that is away.
const chaosOutage = 90 * time.Second

// chaosParts are the processes of "perdure chaos" beside the driver.
func chaosParts(ctx context.Context, part cli.ChaosPart) error {
	addr := os.Getenv(chaos.LedgerVariable)
	switch part.Name {
	case cli.ChaosLedger:
		ctx, stop := untilClosed(ctx, os.Stdin)
		defer stop()
		ledger := chaos.Ledger{Path: part.File}
		return ledger.Run(ctx, func(addr string) { fmt.Fprintln(part.Out, addr) })
	case cli.ChaosEffect:
		return chaos.Enter(ctx, part.Ledger, chaos.Line{Effect: part.Effect, Class: string(perdure.AtMostOnce), PID: os.Getpid()})
	}
	ctx, stop := untilClosed(ctx, os.Stdin)
	defer stop()
	child := chaosChild{Dir: part.Dir, Ledger: addr, Database: os.Getenv("PERDURE_DATABASE"), Addr: os.Getenv("PERDURE_LISTEN"), Token: os.Getenv("PERDURE_TOKEN"), Sabotage: part.Sabotage, Log: part.Log}
	return child.run(ctx)
}

// untilClosed ends the context when whoever started this process is gone.
func untilClosed(ctx context.Context, in io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // nothing is said on it
		cancel()
	}()
	return ctx, cancel
}

// chaosChild is the server that chaos disturbs: a whole one, with tools that write into the ledger, without caps on
// executions and take-ups, which have tests of their own.
type chaosChild struct {
	Dir      string // the data directory
	Database string // as that of cli.Opening
	Addr     string
	Token    string
	Ledger   string // its address
	Sabotage string // how it breaks its word; empty: not at all
	Log      *slog.Logger
}

// run serves until ctx ends.
func (c chaosChild) run(ctx context.Context) (err error) {
	if c.Ledger == "" || c.Addr == "" || c.Token == "" {
		return fmt.Errorf("%w start: only perdure chaos starts this", perdure.Invalid)
	}
	opening := cli.Opening{Access: cli.Writing, Dir: c.Dir, Database: c.Database, AskModels: true, Serve: true, Log: c.Log}
	st, err := c.openStore(ctx, opening)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	spaces := newWorkspaces(st, c.Log)
	defer func() { err = errors.Join(err, spaces.close()) }()
	tools := tool.NewRegistry(slices.Concat(core.Tools(), file.Tools(), background.Tools(background.Config{}), subagent.Tools(), chaosTools(c.Ledger, c.Sabotage))...)
	// What commands write into the ledger they write with this program, from inside their sandbox. Where the machine keeps
	// none they run all the same: they are of our own script.
	opening.Sandbox = cli.Sandbox{Unsafe: true, Reads: []string{self()}}
	if err := addShell(tools, opening, spaces); err != nil {
		return err
	}
	if bash, ok := tools.Get(cli.ShellTool); ok {
		tools.Register(bash) // for every session
	}
	cfg := local.Config{
		Store: st, Shared: c.Database != "", Model: newModels(opening), Tools: tools, Files: spaces.files, Log: c.Log, DeferAbove: -1,
		MaxExecutions: -1, NoProgress: -1, Beat: chaosBeat, Lease: chaosLease, OrphanScan: chaosScan, Drain: chaosDrain,
		Outbound: local.Outbound{PerMinute: -1}, // a storm of commands is what it is for
	}
	eng, err := local.Open(ctx, cfg)
	if err != nil {
		return err
	}
	listener, err := listen(cli.Serving{Addr: c.Addr})
	if err != nil {
		return err
	}
	door := newDoor(sabotaged(eng, c.Sabotage), st, c.Dir, c.Log)
	if err := door.openSocket(); err != nil {
		return errors.Join(err, listener.Close())
	}
	door.add(listener, api.Config{Token: c.Token})
	return door.carry(ctx, door.renewing(eng.Run, func(ctx context.Context) (engine.Engine, func(context.Context) error, error) {
		eng, err := local.Open(ctx, cfg)
		return sabotaged(eng, c.Sabotage), eng.Run, err
	}))
}

// openStore opens the store without a reserve for cancels, which has tests of its own.
func (c chaosChild) openStore(ctx context.Context, o cli.Opening) (store.Store, error) {
	if c.Database != "" {
		return openDatabase(ctx, o)
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: c.Dir, Program: "perdure"})
}

// The ways in which the server of a test breaks its word, so that the loop can prove that it finds it.
const (
	sabotageClaim   = "claim"   // what must not run twice runs again after a crash
	sabotageSettle  = "settle"  // what was told of a result is not what is told of it later
	sabotageDeliver = "deliver" // results do not come home
)

// sabotaged is an engine that lies to clients as it is told; without a word it is the engine.
func sabotaged(eng engine.Engine, word string) engine.Engine {
	if word == sabotageSettle || word == sabotageDeliver {
		return liar{eng, word}
	}
	return eng
}

// liar tells clients something else than what is so.
type liar struct {
	engine.Engine
	word string
}

// Tasks lists tasks, and gives other summaries in each life.
func (l liar) Tasks(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	tasks, err := l.Engine.Tasks(ctx, id)
	for i := range tasks {
		if l.word == sabotageSettle {
			tasks[i].Summary += fmt.Sprintf(" (%d)", os.Getpid())
		}
	}
	return tasks, err
}

// Events reads a journal in which nothing was delivered.
func (l liar) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	events, err := l.Engine.Events(ctx, id, after, limit)
	for i, event := range events {
		if _, delivers := event.Fact.(perdure.TaskDelivered); delivers && l.word == sabotageDeliver {
			events[i].Fact = perdure.SessionUpdated{}
		}
	}
	return events, err
}

// dialChaos reaches the server that chaos disturbs. With once a request is not tried again.
func dialChaos(addr, token string, once bool) (engine.Engine, error) {
	cfg := remote.Config{URL: "http://" + addr, Token: token, Retry: chaosOutage}
	if once {
		cfg.Retry = -1
	}
	return remote.New(cfg)
}

// freeAddr is an address of this machine that nobody listens on.
func freeAddr() (string, error) {
	listener, err := listen(cli.Serving{Addr: "127.0.0.1:0"})
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
