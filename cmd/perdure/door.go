package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/docs"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/manual"
	"github.com/perdure/perdure/store"
)

// renewTime is how long a worker that is lost waits before it begins anew: the database may not be there yet.
const renewTime = time.Second

// door answers requests for an engine, on listeners, while the engine runs.
type door struct {
	engine engine.Engine // while nothing is served yet
	ended  chan struct{} // closed when the engine's Run has returned
	dir    string
	keys   *keys
	log    *slog.Logger
	socket string   // path; empty: there is none
	tools  []string // that MCP clients see
	told   observed // who is told of requests
	manual *manual.Manual
	open   []*opening
	lost   atomic.Bool                                 // its worker is, and no other one is there yet
	look   look                                        // at the store
	answer time.Duration                               // from the moment on at which a stop begins, for requests; 0: that of the default stop
	place  func(context.Context) (engine.Place, error) // nil: nobody is told where sessions are kept
}

// checks is what readiness depends on.
func (d *door) checks(ctx context.Context) []api.Check {
	return slices.Concat([]api.Check{{Name: "worker", OK: !d.lost.Load()}}, d.look.checks(ctx))
}

func newDoor(eng engine.Engine, st store.Store, dir string, log *slog.Logger) *door {
	return &door{engine: eng, ended: make(chan struct{}), dir: dir, keys: &keys{store: st, log: log}, log: log, manual: manual.New(docs.Files),
		look: look{store: st, log: log, keep: lookKeep}}
}

// opening is one listener with what answers on it.
type opening struct {
	listener net.Listener
	cfg      api.Config // but for the engine
	store    store.Store
	tools    []string // that MCP clients see; nil: there is no /mcp
	server   *http.Server
	crowd    *api.Crowd // of listener
	made     atomic.Pointer[func() (*api.API, error)]
	mcp      *mcpDoor       // what answers on /mcp now; nil: nothing does. Only touched before it is served and by who renews it
	ending   sync.WaitGroup // of what answered on /mcp before
}

// serves lets the API of an engine answer from now on. It is made once, for the first request: until then a start does not
// wait for it.
func (o *opening) serves(eng engine.Engine) {
	cfg := o.cfg
	eng = access.NewGuard(eng, access.Of(o.store), access.Machine{Folder: cli.WorkspaceKey, Model: reachesOut}, cfg.Log)
	cfg.Engine = eng
	if before := o.mcp; before != nil {
		o.ending.Go(before.close)
	}
	if len(o.tools) > 0 {
		o.mcp = newMCP(eng, o.tools, cfg)
		cfg.MCP = o.mcp
	}
	made := sync.OnceValues(func() (*api.API, error) { return api.New(cfg) })
	o.made.Store(&made)
}

// api is what answers.
func (o *opening) api() (*api.API, error) { return (*o.made.Load())() }

// drain refuses writes and tells those who follow.
func (o *opening) drain() {
	if a, err := o.api(); err == nil {
		a.Drain()
	}
}

// add serves the API of the engine on a listener, as soon as that runs. cfg says who may ask.
func (d *door) add(listener net.Listener, cfg api.Config) {
	cfg.Keys, cfg.Log, cfg.Version, cfg.Ready = d.keys, d.log, version().Version, d.checks
	cfg.Place = d.place
	cfg.Telemetry, cfg.Metrics, cfg.Manual = d.told.server, d.told.page, d.manual
	o := &opening{listener: listener, cfg: cfg, store: d.keys.store, tools: d.tools, crowd: api.Bounded(listener, api.MaxConnections)}
	o.serves(d.engine)
	answer := func(w http.ResponseWriter, r *http.Request) {
		a, err := o.api()
		if err != nil {
			d.log.Error("the API cannot be served", "error", err)
			http.Error(w, "the API cannot be served", http.StatusInternalServerError)
			return
		}
		a.ServeHTTP(w, r)
	}
	o.server = api.NewServer(http.HandlerFunc(answer), d.log)
	d.open = append(d.open, o)
}

// renewing runs an engine, and another one in its place when its worker is lost: the lease of a shared store has passed, since
// this process was paused or the database was away for too long (LG20). What the lost one had in work is taken up as after a
// crash, by whoever is first. Who followed is told to come again.
func (d *door) renewing(run func(context.Context) error, another func(context.Context) (engine.Engine, func(context.Context) error, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		for lost := errors.Is(err, perdure.Lost); ctx.Err() == nil && (errors.Is(err, perdure.Lost) || lost && errors.Is(err, perdure.Unavailable)); {
			d.lost.Store(true)
			d.log.Warn("this worker was lost: the process begins anew as another one", "error", err)
			select {
			case <-time.After(renewTime):
			case <-ctx.Done():
				return nil
			}
			var eng engine.Engine
			if eng, run, err = another(ctx); err != nil {
				continue
			}
			for _, o := range d.open {
				before, err := o.api()
				o.serves(eng)
				if err == nil {
					before.Drain()
				}
				if ctx.Err() != nil { // run has told the one before
					o.drain()
				}
			}
			d.lost.Store(false)
			err = run(ctx)
		}
		if ctx.Err() != nil && errors.Is(err, perdure.Lost) { // it was to end, and what it had is taken up elsewhere
			return nil
		}
		return err
	}
}

// openSocket serves the API on the directory's socket, to its owner only. A directory that can have none is served
// without: other commands then read the store, and those that write wait until it is free.
func (d *door) openSocket() error {
	path := filepath.Join(d.dir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // nobody answers on it: openStore has looked
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		d.log.Warn("the data directory has no socket: other commands cannot ask this process", "error", err)
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	d.socket = path
	d.add(listener, api.Config{Local: true})
	return nil
}

// carry runs the engine and answers requests for it, until ctx ends, and returns when both have ended.
func (d *door) carry(ctx context.Context, run func(context.Context) error) error {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group sync.WaitGroup
	var served, pruned error
	group.Go(func() { served = d.run(work, stop) })
	group.Go(func() { pruned = d.keys.Run(work) })
	group.Go(func() { d.watchStore(work, stop) })
	err := run(work)
	close(d.ended)
	stop(nil)
	group.Wait()
	return errors.Join(err, served, pruned)
}

// watchStore ends everything by fail as soon as the store has broken, whoever met that: a request may have been the only
// one who writes (R6).
func (d *door) watchStore(ctx context.Context, fail context.CancelCauseFunc) {
	st, ok := d.keys.store.(interface {
		Broke() <-chan struct{}
		Broken() error
	})
	if !ok {
		return
	}
	select {
	case <-st.Broke():
		fail(st.Broken())
	case <-ctx.Done():
	}
}

// run serves until ctx ends. Then writes are refused and streams are told, while the engine lets its work settle;
// when that has ended, so do the servers. A listener that fails ends everything by fail.
func (d *door) run(ctx context.Context, fail context.CancelCauseFunc) error {
	var group sync.WaitGroup
	failures := make([]error, len(d.open))
	for i, o := range d.open {
		group.Go(func() {
			if err := ignoreClosed(o.server.Serve(o.crowd)); err != nil {
				failures[i] = fmt.Errorf("serve %s: %w", o.listener.Addr(), err)
				fail(failures[i])
			}
		})
	}
	<-ctx.Done()
	answered := time.Now().Add(d.answerTime())
	for _, o := range d.open {
		o.drain()
		o.server.SetKeepAlivesEnabled(false) // whoever comes again finds the next server
	}
	<-d.ended
	closed := d.closeListeners()
	group.Wait() // now all whom they accepted are counted
	return errors.Join(append(failures, closed, d.closeBy(answered))...)
}

// answerTime is how long a stop has for requests.
func (d *door) answerTime() time.Duration { return cmp.Or(d.answer, timesOf(0, true).answer) }

// closeListeners lets nobody in any more. On a socket that was handed over, the next server finds who comes now.
func (d *door) closeListeners() error {
	var errs []error
	for _, o := range d.open {
		errs = append(errs, ignoreClosed(o.listener.Close()))
	}
	return errors.Join(errs...)
}

// close is closeBy for a door that does not serve any more.
func (d *door) close() error { return d.closeBy(time.Now().Add(d.answerTime())) }

// closeBy ends the servers. Whoever was accepted has until then to ask, and is answered; then the connections are closed.
// Server.Shutdown would drop those whose request it has not read yet.
func (d *door) closeBy(end time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	errs := []error{d.closeListeners()}
	for _, o := range d.open {
		o.crowd.Wait(ctx)
		errs = append(errs, ignoreClosed(o.server.Close()))
		o.crowd.Cut() // the streams that were told, and did not take it
		if o.mcp != nil {
			o.mcp.close()
		}
		o.ending.Wait() // their requests have ended
	}
	d.open = nil
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
