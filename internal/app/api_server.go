package app

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
	"github.com/perdure/perdure/internal/ui"
	"github.com/perdure/perdure/store"
)

// renewTime is the pause before a lost worker restarts: the database may not be available yet.
const renewTime = time.Second

// apiServer serves the API of an engine on its listeners while the engine runs.
type apiServer struct {
	engine      engine.Engine // before anything is served
	ended       chan struct{} // closed when the engine's Run has returned
	dir         string
	keys        *keys
	log         *slog.Logger
	socket      string   // path; empty: there is none
	tools       []string // for MCP clients
	resumedOnce observed // telemetry of requests
	manual      *manual.Handler
	links       *ui.Links // to the web UI
	open        []*listenerServer
	lost        atomic.Bool    // the worker is lost, and there is no new one yet
	readiness   storeReadiness // readiness of the store
	// time for requests, from the start of a stop; 0: that of the default stop
	answer time.Duration
	// nil: clients cannot ask where the sessions are stored
	storePlace func(context.Context) (engine.StorageIdentity, error)
	machine    *serverMachine // nil: clients cannot ask about it
}

// checks returns the readiness checks.
func (d *apiServer) checks(ctx context.Context) []api.Check {
	return slices.Concat([]api.Check{{Name: "worker", OK: !d.lost.Load()}}, d.readiness.checks(ctx))
}

func newAPIServer(eng engine.Engine, st store.Store, dir string, log *slog.Logger) *apiServer {
	return &apiServer{engine: eng, ended: make(chan struct{}), dir: dir, keys: &keys{store: st, log: log}, log: log,
		manual: manual.New(docs.Files), links: &ui.Links{},
		readiness: storeReadiness{store: st, log: log, cacheTime: readinessCacheTime}}
}

// listenerServer is one listener with its server.
type listenerServer struct {
	listener net.Listener
	cfg      api.Config // without the engine
	store    store.Store
	tools    []string // for MCP clients; nil: there is no /mcp
	server   *http.Server
	conns    *api.ConnLimiter              // of listener
	engine   atomic.Pointer[engine.Engine] // guarded by access, as the API uses it
	current  atomic.Pointer[func() (*api.API, error)]
	mcp      *mcpHandler    // current handler of /mcp; nil: none. Touched only before it is served, and by renewing
	stopping sync.WaitGroup // of earlier handlers of /mcp
}

// serves makes the API of an engine answer from now on. The API is created with the first request,
// so that a start does not wait for it.
func (o *listenerServer) serves(eng engine.Engine) {
	cfg := o.cfg
	eng = access.NewGuard(eng, access.StoreOwners(o.store), access.MachineAccess{DirectoryKey: cli.WorkspaceKey, Model: usesNetwork}, cfg.Log)
	cfg.Engine = eng
	o.engine.Store(&eng)
	if before := o.mcp; before != nil {
		o.stopping.Go(before.close)
	}
	if len(o.tools) > 0 {
		o.mcp = newMCP(eng, o.tools, cfg)
		cfg.MCP = o.mcp
	}
	made := sync.OnceValues(func() (*api.API, error) { return api.New(cfg) })
	o.current.Store(&made)
}

// api returns the current API.
func (o *listenerServer) api() (*api.API, error) { return (*o.current.Load())() }

// drain refuses writes and ends event streams.
func (o *listenerServer) drain() {
	if a, err := o.api(); err == nil {
		a.Drain()
	}
}

// add serves the API of the engine on a listener, as soon as the door runs. cfg defines who has
// access.
func (d *apiServer) add(listener net.Listener, cfg api.Config) {
	cfg.Keys, cfg.Log, cfg.Version, cfg.Ready = d.keys, d.log, version().Version, d.checks
	cfg.StorageIdentity = d.storePlace
	if d.machine != nil {
		cfg.Machine = d.machine.api()
	}
	cfg.Telemetry, cfg.Metrics, cfg.Manual = d.resumedOnce.server, d.resumedOnce.page, d.manual
	o := &listenerServer{listener: listener, cfg: cfg, store: d.keys.store, tools: d.tools,
		conns: api.LimitConns(listener, api.MaxConnections)}
	o.serves(d.engine)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := o.api()
		if err != nil {
			d.log.Error("serving the API failed", "error", err)
			http.Error(w, "cannot serve the API", http.StatusInternalServerError)
			return
		}
		a.ServeHTTP(w, r)
	})
	o.server = api.NewServer(d.withUI(o, answer, cfg), d.log)
	d.open = append(d.open, o)
}

// renewWorker runs an engine, and replaces it when its worker is lost, because the lease in a
// shared store has expired while this process was paused or the database was down. The work of the
// lost worker is recovered as after a crash, by whichever worker is first. Event streams end, and
// their clients reconnect.
func (d *apiServer) renewWorker(run func(context.Context) error,
	another func(context.Context) (engine.Engine, func(context.Context) error, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		for lost := errors.Is(err, perdure.Lost); ctx.Err() == nil &&
			(errors.Is(err, perdure.Lost) || lost && errors.Is(err, perdure.Unavailable)); {
			d.lost.Store(true)
			d.log.Warn("worker lost, restarting as a new worker", "error", err)
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
				if ctx.Err() != nil { // run has drained the previous API
					o.drain()
				}
			}
			d.lost.Store(false)
			err = run(ctx)
		}
		// the process stops anyway, and another worker recovers the work
		if ctx.Err() != nil && errors.Is(err, perdure.Lost) {
			return nil
		}
		return err
	}
}

// openSocket serves the API on the socket of the directory, for its owner only. Where a socket is
// not possible, the server works without: other commands then read the store, and those that write
// wait until it is free.
func (d *apiServer) openSocket() error {
	path := filepath.Join(d.dir, socketFile)
	// no process responds on it: openStore has checked that
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		d.log.Warn("no socket for the data directory, other commands cannot use this process", "error", err)
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	d.socket = path
	d.add(listener, api.Config{Local: true})
	return nil
}

// serveWorkers runs the engine and serves its API until ctx ends. It returns when both have ended.
func (d *apiServer) serveWorkers(ctx context.Context, run func(context.Context) error) error {
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

// watchStore calls fail as soon as the store is broken. A request may be the only writer, so that
// the engine would not notice it.
func (d *apiServer) watchStore(ctx context.Context, fail context.CancelCauseFunc) {
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

// run serves until ctx ends. Then writes are refused and streams are ended, while the engine lets
// its work settle. When the engine has ended, so do the servers. A listener that fails ends
// everything by calling fail.
func (d *apiServer) run(ctx context.Context, fail context.CancelCauseFunc) error {
	var group sync.WaitGroup
	failures := make([]error, len(d.open))
	for i, o := range d.open {
		group.Go(func() {
			if err := ignoreClosed(o.server.Serve(o.conns)); err != nil {
				failures[i] = fmt.Errorf("serve %s: %w", o.listener.Addr(), err)
				fail(failures[i])
			}
		})
	}
	<-ctx.Done()
	answered := time.Now().Add(d.answerTime())
	for _, o := range d.open {
		o.drain()
		o.server.SetKeepAlivesEnabled(false) // a client that reconnects reaches the next server
	}
	<-d.ended
	closed := d.closeListeners()
	group.Wait() // now all accepted connections are counted
	return errors.Join(append(failures, closed, d.closeBy(answered))...)
}

// answerTime returns how long a stop waits for requests.
func (d *apiServer) answerTime() time.Duration { return cmp.Or(d.answer, timesOf(0, true).answer) }

// closeListeners stops accepting connections. On an inherited socket, new connections wait for the
// next server.
func (d *apiServer) closeListeners() error {
	var errs []error
	for _, o := range d.open {
		errs = append(errs, ignoreClosed(o.listener.Close()))
	}
	return errors.Join(errs...)
}

// close is closeBy for a door that is not serving.
func (d *apiServer) close() error { return d.closeBy(time.Now().Add(d.answerTime())) }

// closeBy ends the servers. Accepted connections are served until end, and closed then.
// Server.Shutdown would drop connections whose request it has not read yet.
func (d *apiServer) closeBy(end time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	errs := []error{d.closeListeners()}
	for _, o := range d.open {
		o.conns.Wait(ctx)
		errs = append(errs, ignoreClosed(o.server.Close()))
		o.conns.CloseAll() // the streams that did not end by themselves
		if o.mcp != nil {
			o.mcp.close()
		}
		o.stopping.Wait() // their requests have ended
	}
	d.open = nil
	if d.machine != nil {
		d.machine.close()
	}
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
