package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
)

// OutsideScheduler is a scheduler outside of this process that gives out the work of a store to
// several processes. Its methods do not block and do no I/O in the caller's goroutine; they are
// called concurrently, also within transactions. It may forget any call: Due lists the work.
type OutsideScheduler interface {
	// Name is the scheduler's name, as the store notes it (RC32). It does not change.
	Name() string
	// Wake says that a session has unread events and no driver in this process.
	Wake(id perdure.SessionID)
	// StartQueued says that tasks may wait: a run was queued, a slot is free, or a task was
	// canceled or answered that runs nowhere.
	StartQueued()
}

// Granted is an engine that works only under grants from a scheduler outside of its process. Each
// grant may come late, twice, or at two processes: the store refuses all but the last one. The
// leases of workers only say who seems to be alive, and fence nothing.
//
// Several engines of this kind use one store. The store notes the name of their scheduler, and
// refuses engines of another one.
type Granted struct {
	operations // of callers
	engine     *Engine

	mu     sync.Mutex
	driven map[perdure.SessionID]*drivenSession // guarded by mu
}

// drivenSession is a session that this process drives, for the calls of Drive that wait for it.
type drivenSession struct {
	driver *host.Driver
	stop   context.CancelFunc
	calls  int           // guarded by Granted.mu; of Drive; the last one that leaves stops the driver
	done   chan struct{} // closed when the driver has ended
	err    error         // of the driver; written before done is closed
}

var _ host.Scheduler = scheduler{}

// OpenGranted is Open for an engine that works under grants. cfg.Workers.Shared is taken as true.
func OpenGranted(ctx context.Context, cfg Config, s OutsideScheduler) (*Granted, error) {
	cfg.Workers.Shared = true
	g := &Granted{driven: map[perdure.SessionID]*drivenSession{}}
	e, err := open(ctx, cfg, outside{s, g})
	if err != nil {
		return nil, err
	}
	g.engine, g.operations = e, e.operations
	return g, nil
}

// outside tells drivers of this process first.
type outside struct {
	OutsideScheduler
	granted *Granted
}

// Wake wakes the driver of a session, or tells the scheduler.
func (o outside) Wake(id perdure.SessionID) {
	o.granted.mu.Lock()
	d := o.granted.driven[id]
	if d != nil {
		d.driver.Wake()
	}
	o.granted.mu.Unlock()
	if d == nil {
		o.OutsideScheduler.Wake(id)
	}
}

// Worker returns the id of this engine's worker.
func (g *Granted) Worker() perdure.WorkerID { return g.engine.worker.ID }

// Started returns a channel that is closed when Run has registered the worker. Work is taken only
// after that.
func (g *Granted) Started() <-chan struct{} { return g.engine.started }

// Run keeps the worker registered and does what belongs to no grant, until ctx ends: it delivers
// webhooks, and cleans up. Then running work may settle for the drain time. Its errors are those of
// Engine.Run, but a lease that expired is renewed.
func (g *Granted) Run(ctx context.Context) error { return g.engine.Run(ctx) }

// Drive drives a session under a grant until the session is idle and none of its detached calls run
// here, or ctx ends. If this process drives the session already, the driver goes on undisturbed
// under the new grant, and Drive waits for it.
//
// StaleGrant: a later grant was used, which Left names. Lost: another process took the session.
// NotFound: no such session. Invalid and Conflict: its journal cannot be continued. Unavailable:
// Run is not running.
func (g *Granted) Drive(ctx context.Context, id perdure.SessionID, grant host.Grant) (host.Left, error) {
	d, joined, err := g.enter(ctx, id, grant)
	if err != nil {
		return host.Left{}, fmt.Errorf("drive %s: %w", id, err)
	}
	if joined {
		if err = g.engine.host.Grants().UseGrant(ctx, id, grant); err == nil {
			d.driver.Use(grant)
		}
	}
	if err == nil {
		select {
		case <-d.done:
			err = d.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	g.leave(d)
	left, failed := g.engine.host.Grants().LeftSession(ctx, id, err)
	switch {
	case failed != nil && err == nil:
		err = failed
	case notHere(err):
		err = nil
	}
	if err != nil {
		return left, fmt.Errorf("drive %s: %w", id, err)
	}
	return left, nil
}

// enter returns the session as driven here, and starts its driver unless that runs already.
func (g *Granted) enter(
	ctx context.Context, id perdure.SessionID, grant host.Grant,
) (d *drivenSession, joined bool, err error) {
	if !(scheduler{g.engine}).Running() {
		return nil, false, fmt.Errorf("%w: the engine does not run", perdure.Unavailable)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if d = g.driven[id]; d != nil {
		d.calls++
		return d, true, nil
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	d = &drivenSession{driver: g.engine.host.NewDriver(id), stop: stop, calls: 1, done: make(chan struct{})}
	d.driver.Use(grant)
	started := (scheduler{g.engine}).Go(func(engine context.Context) {
		defer context.AfterFunc(engine, stop)()
		g.drive(work, id, d)
	})
	if !started {
		stop()
		return nil, false, fmt.Errorf("%w: the engine does not run", perdure.Unavailable)
	}
	g.driven[id] = d
	return d, false, nil
}

// leave ends a call of Drive. The last one stops the driver.
func (g *Granted) leave(d *drivenSession) {
	g.mu.Lock()
	d.calls--
	last := d.calls == 0
	g.mu.Unlock()
	if last {
		d.stop()
		<-d.done
	}
}

// drive runs the driver of a session, and follows what other processes append to its journal.
func (g *Granted) drive(ctx context.Context, id perdure.SessionID, d *drivenSession) {
	defer d.stop()
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { g.follow(watching, id, d.driver) })
	g.endOwner(ctx, id, "")
	err := g.runDriver(ctx, id, d)
	stop()
	watch.Wait()
	g.mu.Lock()
	if g.driven[id] == d { // it ended with an error
		delete(g.driven, id)
	}
	again := d.driver.Pending()
	g.mu.Unlock()
	if err != nil {
		g.engine.host.Release(id)
	}
	d.err = err
	close(d.done)
	if again {
		(scheduler{g.engine}).Wake(id)
	}
}

// endOwner declares the owner of a session or task dead if its process has ended.
func (g *Granted) endOwner(ctx context.Context, id perdure.SessionID, task perdure.TaskID) {
	owner := g.engine.host.Grants().NoteOwner(ctx, id, task)
	if owner.ID == "" || owner.ID == g.engine.worker.ID {
		return
	}
	if err := g.engine.endIfDisconnected(ctx, owner.ID); err != nil && ctx.Err() == nil {
		g.engine.cfg.Log.Warn("cannot tell whether the process of a worker has ended", "worker", owner.ID, "error", err)
	}
}

// follow passes the growth of a session's journal on to its driver until ctx ends.
func (g *Granted) follow(ctx context.Context, id perdure.SessionID, d *host.Driver) {
	row, err := store.Read(ctx, g.engine.cfg.Store, func(r store.Reader) (store.Session, error) {
		return r.Sessions().Get(id)
	})
	d.Grown(row.LastSeq) // which may be newer than what the driver has read
	for seq := row.LastSeq; ctx.Err() == nil; pause(ctx, time.Second) {
		if err == nil {
			err = g.engine.cfg.Store.Watch(ctx, id, seq, func(f store.Frame) error {
				if f.Event != nil {
					seq = f.Event.Seq
					d.Grown(seq)
					g.engine.host.Grants().ForwardCancel(ctx, *f.Event)
				}
				return nil
			})
		}
		if errors.Is(err, perdure.NotFound) {
			return
		}
		err = nil
	}
}

// runDriver runs a driver until its session is idle and has no detached calls here, and takes it
// out of g.driven then, under g.mu, so that no wake is lost in between.
func (g *Granted) runDriver(ctx context.Context, id perdure.SessionID, d *drivenSession) error {
	for attempt := 1; ; attempt++ {
		err := d.driver.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case store.Broken(err):
			g.engine.mu.Lock()
			g.engine.fail(err)
			g.engine.mu.Unlock()
			return err
		case errors.Is(err, perdure.Lost), errors.Is(err, perdure.NotFound), host.Permanent(err):
			return err
		case err != nil:
			g.engine.cfg.Log.Warn("session resumed after error", "session", id, "error", err)
			pause(ctx, perdure.RetryDelay(min(attempt, 5), 0, string(id))/10)
			continue
		}
		if attempt = 0; g.awaitDetached(ctx, id, d) {
			return nil
		}
	}
}

// awaitDetached waits until no detached call of an idle session runs here. false: the session has
// something to do before that.
func (g *Granted) awaitDetached(ctx context.Context, id perdure.SessionID, d *drivenSession) bool {
	tick := time.NewTicker(time.Second) // the end of a detached call also wakes the session
	defer tick.Stop()
	for {
		g.mu.Lock()
		pending := d.driver.Pending()
		over := !pending && (g.engine.host.Grants().DetachedHere(id) == 0 || ctx.Err() != nil)
		if over {
			delete(g.driven, id)
		}
		g.mu.Unlock()
		if pending || over {
			return over
		}
		select {
		case <-d.driver.Woken():
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// RunTask runs a task under a grant, as host.Grants.RunTask. Unavailable: Run is not running.
func (g *Granted) RunTask(ctx context.Context, id perdure.TaskID, grant host.Grant) (host.Left, error) {
	if !(scheduler{g.engine}).Running() {
		return host.Left{}, fmt.Errorf("run task %s: %w: the engine does not run", id, perdure.Unavailable)
	}
	g.endOwner(ctx, "", id)
	return g.engine.host.Grants().RunTask(ctx, id, grant)
}

// OwnsSession reports whether the store has this process as the driver of a session.
func (g *Granted) OwnsSession(ctx context.Context, id perdure.SessionID) (bool, error) {
	return g.engine.host.Grants().OwnsSession(ctx, id)
}

// OwnsTask reports whether the store has this process as the worker of a task.
func (g *Granted) OwnsTask(ctx context.Context, id perdure.TaskID) (bool, error) {
	return g.engine.host.Grants().OwnsTask(ctx, id)
}

// KeepTime fires the schedules of the store that are due, until ctx ends. One process is enough;
// several do no harm.
func (g *Granted) KeepTime(ctx context.Context) error { return g.engine.keepTime(ctx) }

// Tidy makes one pass over what no grant covers: approvals that expire, halted sessions, parents of
// subagents, bulks, and the rows of dead workers.
func (g *Granted) Tidy(ctx context.Context) error {
	h := g.engine.host
	h.ResumeHalted(ctx)
	h.ResumeConnected(ctx)
	h.UpdateParents(ctx)
	return errors.Join(h.ExpireApprovals(ctx), h.ResumeBulks(ctx), g.engine.removeDead(ctx))
}

// removeDead removes the rows of workers whose leases expired long ago.
func (e *Engine) removeDead(ctx context.Context) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		workers, err := tx.Workers().List()
		for _, w := range workers {
			if err == nil && tx.Now().Sub(w.LeaseUntil) > e.cfg.Workers.Lease {
				err = tx.Workers().MarkDead(w.ID)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove dead workers: %w", err)
	}
	return nil
}

// Due lists what waits for a scheduler, as host.Grants.Due.
func (g *Granted) Due(ctx context.Context, after string, limit int) (host.Waiting, error) {
	return g.engine.host.Grants().Due(ctx, g.drives, after, limit)
}

// DueSession returns a session if it waits for a driver, as host.Grants.DueSession.
func (g *Granted) DueSession(ctx context.Context, id perdure.SessionID) (host.WaitingSession, bool, error) {
	return g.engine.host.Grants().DueSession(ctx, g.drives, id)
}

// drives reports whether a session is driven here.
func (g *Granted) drives(id perdure.SessionID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.driven[id] != nil
}

// DueRuns returns the runs of a session that wait for a process, as host.Grants.DueRuns.
func (g *Granted) DueRuns(ctx context.Context, id perdure.SessionID) ([]host.WaitingRun, error) {
	return g.engine.host.Grants().DueRuns(ctx, id)
}
