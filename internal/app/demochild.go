package app

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/shell"
)

// demoSessions is the number of concurrent orders.
const demoSessions = 3

//go:embed demo/agent.yaml
var demoAgent []byte

// demoChild is the process that the demo kills: a complete engine that works on orders.
type demoChild struct {
	Dir    string
	Finish bool   // start no new orders, finish the open ones, and exit
	Pages  string // address to serve the web UI on, for people, so that the work takes longer; empty: none
	Out    io.Writer
	Log    *slog.Logger
}

// run works until ctx ends, or with Finish until every session is idle.
func (d demoChild) run(ctx context.Context) error {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: filepath.Join(d.Dir, "data")})
	if err != nil {
		return err
	}
	defer st.Close()
	eng, err := d.open(ctx, st)
	if err != nil {
		return err
	}
	door := newAPIServer(eng, st, filepath.Join(d.Dir, "data"), d.Log)
	if err := errors.Join(door.openSocket(), door.openPages(d.Pages)); err != nil {
		return errors.Join(err, door.close())
	}
	before, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return errors.Join(err, door.close())
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1) // capacity 1: one result
	go func() {
		defer stop()
		served <- d.serve(work, eng, before)
	}()
	err = door.serveWorkers(work, eng.Run)
	stop()
	return errors.Join(err, <-served)
}

// open creates the engine with the agent and tools of the demo. The limits on executions are off,
// because the demo kills the process more often than they allow.
func (d demoChild) open(ctx context.Context, st *sqlite.Store) (*local.Engine, error) {
	script := demoAgent
	if d.Pages != "" {
		script = bytes.ReplaceAll(script, []byte("sleep 0.1"), []byte("sleep 0.6"))
	}
	agent, err := scripted.Parse("demo agent", script)
	if err != nil {
		return nil, err
	}
	bash, err := shell.New(shell.Config{
		RunsDir: filepath.Join(d.Dir, "data", "runs"), Dir: filepath.Join(d.Dir, "work"),
		Profile: supervise.ProfileWorkspace, Unsafe: true, // the commands come from our own script
	})
	if err != nil {
		return nil, err
	}
	tools := tool.NewRegistry(core.Tools()...)
	for _, t := range append(append(background.Tools(background.Config{}), demoTools(d.Dir)...), bash) {
		tools.Register(t)
	}
	return local.Open(ctx, local.Config{Store: st, Model: agent, Tools: tools, Limits: local.Limits{MaxExecutions: -1, NoProgress: -1},
		Log: d.Log})
}

// serve starts orders, a few at a time, and reports once that work is progressing.
func (d demoChild) serve(ctx context.Context, eng engine.Engine, before []engine.Session) error {
	var once sync.Once
	moving := func() { once.Do(func() { fmt.Fprintln(d.Out, "moving") }) }
	var group sync.WaitGroup
	defer group.Wait()
	failed := make(chan error, 1) // capacity 1: the first error; later ones are consequences of it
	carry := func(work func() error) {
		group.Go(func() {
			if err := work(); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	open := make(chan struct{}, demoSessions) // capacity demoSessions: one element per running order
	for _, s := range before {
		if unfinished(s) {
			carry(func() error { return d.sign(ctx, eng, s, moving) })
			d.reopen(open, func() error { return eng.Sessions().WaitIdle(ctx, s.ID) }, carry)
		}
	}
	if d.Finish {
		for _, s := range before {
			carry(func() error { return eng.Sessions().WaitIdle(ctx, s.ID) })
		}
		group.Wait()
		moving()
		return firstOf(failed)
	}
	for number := len(before) + 1; ; number++ {
		select {
		case open <- struct{}{}:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
		carry(func() error {
			defer func() { <-open }()
			return d.order(ctx, eng, number, moving)
		})
	}
}

// reopen waits for an order that was interrupted. It counts as a running order while there is
// capacity; further ones are finished, too.
func (d demoChild) reopen(open chan struct{}, wait func() error, carry func(func() error)) {
	select {
	case open <- struct{}{}:
		carry(func() error {
			defer func() { <-open }()
			return wait()
		})
	default:
		carry(wait)
	}
}

// firstOf returns the first error, or nil.
func firstOf(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// order starts one session and waits until it is idle.
func (d demoChild) order(ctx context.Context, eng engine.Engine, number int, moving func()) error {
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Name: "demo", Title: fmt.Sprintf("order %d", number)})
	if err != nil {
		return err
	}
	if _, err := eng.Send(ctx, s.ID, perdure.Text(fmt.Sprintf("order %d", number))); err != nil {
		return err
	}
	moving()
	return eng.Sessions().WaitIdle(ctx, s.ID)
}

// errMoved ends the wait for progress.
var errMoved = errors.New("moved")

// sign waits for the first event that this process adds to an interrupted session.
func (d demoChild) sign(ctx context.Context, eng engine.Engine, s engine.Session, moving func()) error {
	err := eng.Follow(ctx, s.ID, s.LastSeq, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		moving()
		return errMoved
	})
	if errors.Is(err, errMoved) || ctx.Err() != nil {
		return nil
	}
	return err
}

// unfinished reports whether a session was interrupted.
func unfinished(s engine.Session) bool {
	return s.Status == perdure.SessionActive || s.OpenTasks > 0
}
