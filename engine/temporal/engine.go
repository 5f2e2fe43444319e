package temporal

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/engine/local"
)

// Engine is an engine of one process whose work Temporal gives out. It is safe for concurrent use.
type Engine struct {
	*local.Granted
	scheduler *Scheduler
}

// Open prepares an engine over a store that several processes share. It starts nothing and does not
// reach Temporal. The home of the scheduler is that of the engine. Invalid: one of the
// configurations is not valid; the error says why.
func Open(ctx context.Context, of local.Config, by Config) (*Engine, error) {
	by.Home = string(of.Storage.Home)
	s, err := New(by)
	if err != nil {
		return nil, err
	}
	g, err := local.OpenGranted(ctx, of, outside{s})
	if err != nil {
		return nil, err
	}
	return &Engine{Granted: g, scheduler: s}, nil
}

// Run registers the engine's worker, and works on what Temporal hands out until ctx ends. Then
// running work may settle for the drain time. Its errors are those of local.Granted.Run and of
// Scheduler.Run.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	engine, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	go func() {
		err := e.Granted.Run(engine)
		stop(err)
		ended <- err
	}()
	var scheduled error
	select {
	case <-e.Started():
		scheduled = e.scheduler.Run(ctx, granted{e.Granted, e.scheduler.cfg.CapabilityOf}) // it releases the work before the engine ends
	case <-ctx.Done():
	}
	stopEngine()
	return errors.Join(scheduled, <-ended)
}

// outside passes on what an engine says to the scheduler.
type outside struct{ *Scheduler }

// StartQueued says that queued runs of any session may start.
func (o outside) StartQueued() { o.Scheduler.StartQueued("") }

// granted is an engine as the activities use it.
type granted struct {
	*local.Granted
	capabilityOf func(tool string, labels map[string]string) string // nil: no work needs any
}

var _ Host = granted{}

// Drive drives a session until it is idle.
func (g granted) Drive(ctx context.Context, id perdure.SessionID, by Grant) (Rest, error) {
	left, err := g.Granted.Drive(ctx, id, host.Grant{Number: by.Number, Evict: by.Evict})
	return Rest{Seq: left.Seq, Grant: left.Grant, Home: string(left.Home), Present: left.Present}, err
}

// RunTask runs a task until its end is committed.
func (g granted) RunTask(ctx context.Context, id perdure.TaskID, by Grant) (Ran, error) {
	left, err := g.Granted.RunTask(ctx, id, host.Grant{Number: by.Number, Evict: by.Evict})
	return Ran{Grant: left.Grant, Ended: left.Ended, Waits: left.Waits, Full: left.Full, Home: string(left.Home), Present: left.Present}, err
}

// Due lists what waits for a scheduler.
func (g granted) Due(ctx context.Context, after string, limit int) (Waiting, error) {
	page, err := g.Granted.Due(ctx, after, limit)
	due := Waiting{Next: page.Next, Runs: g.runsOf(page.Runs)}
	for _, s := range page.Sessions {
		due.Sessions = append(due.Sessions, g.sessionOf(s))
	}
	return due, err
}

// DueSession returns a session if it waits for a driver.
func (g granted) DueSession(ctx context.Context, id perdure.SessionID) (WaitingSession, bool, error) {
	w, waits, err := g.Granted.DueSession(ctx, id)
	return g.sessionOf(w), waits, err
}

// DueRuns returns the runs of a session that wait for a process.
func (g granted) DueRuns(ctx context.Context, id perdure.SessionID) ([]WaitingRun, error) {
	runs, err := g.Granted.DueRuns(ctx, id)
	return g.runsOf(runs), err
}

// Interrupt ends the turn of a session.
func (g granted) Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error {
	return g.Sessions().Interrupt(ctx, id, by, why)
}

// CancelTask records that a task is to be canceled.
func (g granted) CancelTask(ctx context.Context, id perdure.TaskID, by, why string) error {
	_, err := g.Tasks().Cancel(ctx, id, by, why)
	return err
}

func (g granted) sessionOf(w host.WaitingSession) WaitingSession {
	return WaitingSession{
		ID: w.ID, Seq: w.Seq, Grant: w.Grant, Home: string(w.Home), Queue: g.capability("", w.Labels), Orphaned: w.Orphaned,
	}
}

func (g granted) runsOf(all []host.WaitingRun) (runs []WaitingRun) {
	for _, w := range all {
		runs = append(runs, WaitingRun{ID: w.ID, Grant: w.Grant, Home: string(w.Home), Queue: g.capability(w.Tool, w.Labels)})
	}
	return runs
}

// capability returns what work needs; empty: nothing.
func (g granted) capability(tool string, labels map[string]string) string {
	if g.capabilityOf == nil {
		return ""
	}
	return g.capabilityOf(tool, labels)
}
