package temporal

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure"
)

// activities are what workflows ask of a process. Their results and errors have ids, numbers and
// the kinds of errors only: the texts of errors stay in the log of the process.
type activities struct {
	host      Host
	heartbeat func(ctx context.Context, token []byte) error // the server's answer; nil: it has it
	every     time.Duration                                 // between two heartbeats
	timeout   time.Duration                                 // the heartbeat timeout
	patience  time.Duration                                 // how long work outlives its activity
	tidyEvery time.Duration
	reconcile func(ctx context.Context) (next time.Duration, err error)
	shares    shares
	log       *slog.Logger
}

// register registers the activities under their stable names.
func (a *activities) register(r worker.ActivityRegistry) {
	for name, f := range map[string]any{
		driveActivity: a.Drive, runTaskActivity: a.RunTask, maintainActivity: a.Maintain,
		interruptActivity: a.Interrupt, cancelActivity: a.CancelTask,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// Drive drives a session until it rests.
func (a *activities) Drive(ctx context.Context, in workInput) (out driveResult, err error) {
	defer a.guard(driveActivity, in.ID, &err)
	owns := func(ctx context.Context) (bool, error) { return a.host.OwnsSession(ctx, perdure.SessionID(in.ID)) }
	out.workResult, err = a.work(ctx, in, owns, func(ctx context.Context) (workResult, error) {
		rest, err := a.host.Drive(ctx, perdure.SessionID(in.ID), in.grantOf())
		out.Seq = rest.Seq
		if !rest.Again.IsZero() {
			out.Again = max(rest.Again.UnixMilli(), 1)
		}
		return workResult{Grant: rest.Grant, Home: rest.Home, Present: rest.Present}, err
	})
	if errors.Is(err, perdure.NotFound) {
		return driveResult{}, nil // it was removed
	}
	return out, err
}

// RunTask runs a task until its end is committed.
func (a *activities) RunTask(ctx context.Context, in workInput) (out runResult, err error) {
	defer a.guard(runTaskActivity, in.ID, &err)
	owns := func(ctx context.Context) (bool, error) { return a.host.OwnsTask(ctx, perdure.TaskID(in.ID)) }
	out.workResult, err = a.work(ctx, in, owns, func(ctx context.Context) (workResult, error) {
		ran, err := a.host.RunTask(ctx, perdure.TaskID(in.ID), in.grantOf())
		out.Ended, out.Waits, out.Full = ran.Ended, ran.Waits, ran.Full
		return workResult{Grant: ran.Grant, Home: ran.Home, Present: ran.Present}, err
	})
	if errors.Is(err, perdure.NotFound) {
		return runResult{Ended: true}, nil // it was removed
	}
	return out, err
}

// Interrupt ends the turn of a session, because an operator canceled its workflow.
func (a *activities) Interrupt(ctx context.Context, in workInput) (err error) {
	defer a.guard(interruptActivity, in.ID, &err)
	return absent(a.host.Interrupt(ctx, perdure.SessionID(in.ID), operator, canceledWhy))
}

// CancelTask cancels a task, because an operator canceled its workflow.
func (a *activities) CancelTask(ctx context.Context, in workInput) (err error) {
	defer a.guard(cancelActivity, in.ID, &err)
	return absent(a.host.CancelTask(ctx, perdure.TaskID(in.ID), operator, canceledWhy))
}

// What journals say of a cancel that came through Temporal.
const (
	operator    = "temporal"
	canceledWhy = "the workflow was canceled in Temporal"
)

// absent is err, but nil if what it is about does not exist.
func absent(err error) error {
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	return err
}

// Maintain fires schedules, cleans up and reconciles until its process stops or another one does
// it. Each pass may fail; it is logged, and the next one follows in time.
func (a *activities) Maintain(ctx context.Context) (err error) {
	defer a.guard(maintainActivity, "", &err)
	if err := a.beat(ctx); err != nil {
		return err
	}
	pass, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var passes sync.WaitGroup
	passes.Go(func() {
		a.repeat(pass, "fire schedules", func(ctx context.Context) (time.Duration, error) {
			return a.tidyEvery, a.host.KeepTime(ctx)
		})
	})
	passes.Go(func() {
		a.repeat(pass, "clean up", func(ctx context.Context) (time.Duration, error) {
			return a.tidyEvery, a.host.Tidy(ctx)
		})
	})
	passes.Go(func() { a.repeat(pass, "reconcile with Temporal", a.reconcile) })
	a.follow(ctx, pass.Done(), nil, stop)
	passes.Wait()
	return nil
}

// repeat runs a pass again and again until ctx ends, each after the time that the former names.
func (a *activities) repeat(ctx context.Context, what string, pass func(context.Context) (time.Duration, error)) {
	for {
		next, err := pass(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.log.Warn("A pass failed and is repeated.", "pass", what, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// work has a session or task worked on, and sends heartbeats meanwhile. The work outlives its
// activity by patience: the next activity may join it in this process.
func (a *activities) work(
	ctx context.Context, in workInput, owns ownership, do func(context.Context) (workResult, error),
) (workResult, error) {
	if err := a.beat(ctx); err != nil {
		return workResult{Moved: true}, err
	}
	share := a.shares.join(ctx, in.ID)
	done := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { a.follow(ctx, done, owns, share.leave) })
	out, err := do(share.ctx)
	close(done)
	following.Wait()
	ended := share.ctx.Err() != nil
	share.leave(nil)
	switch {
	case errors.Is(err, perdure.Lost):
		return workResult{Grant: out.Grant, Lost: true}, nil
	case errors.Is(err, perdure.NotFound):
		return workResult{}, err
	case ended && err != nil:
		return workResult{Grant: out.Grant, Moved: true}, nil
	}
	return out, err
}

// beat sends the first heartbeat of an activity. An error: the activity is over, or is to begin
// later, so nothing may be taken under it.
func (a *activities) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return a.heartbeat(ctx, activity.GetInfo(ctx).TaskToken)
}

// ownership reports whether the store has this process as the one that does some work. nil: the
// store does not know.
type ownership func(ctx context.Context) (bool, error)

// follow sends heartbeats until done is closed or the activity's process is to end the work; then
// it calls end once, with the cause.
//
// While the server does not answer, the work continues for the timeout and patience, and after that
// until another process has taken it. An answer that the activity is over ends the work after
// patience; if that was during an outage, after longer, because the server then hands out
// everything that waited. Work that the store does not know has no patience.
func (a *activities) follow(ctx context.Context, done <-chan struct{}, owns ownership, end func(error)) {
	patience := a.patience
	if owns == nil {
		patience = 0
	}
	token := activity.GetInfo(ctx).TaskToken
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	answered, endAt := time.Now(), time.Time{}
	for {
		select {
		case <-done:
			return
		case <-activity.GetWorkerStopChannel(ctx):
			end(perdure.CauseShutdown)
			return
		case <-tick.C:
		}
		if !endAt.IsZero() {
			if !time.Now().Before(endAt) {
				end(perdure.CauseSuperseded)
				return
			}
			continue
		}
		switch answer := a.ask(ctx, token); answer {
		case held:
			answered = time.Now()
		case ended:
			endAt = time.Now().Add(patience)
			if time.Since(answered) >= a.timeout {
				endAt = endAt.Add(patience * (outagePatience - 1))
			}
		case drained:
			end(perdure.CauseShutdown)
			return
		case silent:
			if time.Since(answered) >= a.timeout+patience && !a.stillOwns(ctx, owns) {
				end(perdure.CauseSuperseded)
				return
			}
		}
	}
}

// outagePatience is how many times as long work outlives an activity that ended during an outage.
const outagePatience = 4

// stillOwns reports whether no other process has taken the work. If the store does not answer, it
// assumes that none has: writes are fenced in any case.
func (a *activities) stillOwns(ctx context.Context, owns ownership) bool {
	if owns == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.every)
	defer cancel()
	owned, err := owns(ctx)
	return owned || err != nil && !errors.Is(err, perdure.NotFound)
}

// answer is what the server says to a heartbeat.
type answer int

// The answers to a heartbeat.
const (
	held    answer = iota // the activity continues
	ended                 // the activity is over: it timed out, or its workflow has ended
	drained               // an operator paused or reset the activity
	silent                // no answer
)

// ask sends one heartbeat. A canceled activity continues: its workflow has the cancel written to
// the store, and the work ends by that.
func (a *activities) ask(ctx context.Context, token []byte) answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.every)
	defer cancel()
	err := a.heartbeat(ctx, token)
	var notFound *serviceerror.NotFound
	var noNamespace *serviceerror.NamespaceNotFound // Temporal has lost its data
	switch {
	case err == nil, temporal.IsCanceledError(err):
		return held
	case errors.As(err, &notFound), errors.As(err, &noNamespace):
		return ended
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return drained
	}
	return silent
}

// guard turns an error or a panic into one that histories may contain: the kind only. The text is
// logged.
func (a *activities) guard(name, id string, err *error) {
	if p := recover(); p != nil {
		a.log.Error("An activity panicked.", "activity", name, "id", id, "panic", p, "stack", string(debug.Stack()))
		*err = temporal.NewApplicationError("panic", "panic")
		return
	}
	if *err == nil || temporal.IsCanceledError(*err) {
		return
	}
	a.log.Warn("An activity failed; its workflow tries again.", "activity", name, "id", id, "err", *err)
	kind := kindOf(*err)
	switch kind {
	case perdure.Invalid, perdure.Denied: // the same again would fail in the same way
		*err = temporal.NewNonRetryableApplicationError(string(kind), permanentType, nil)
	default:
		*err = temporal.NewApplicationError(string(kind), "failed")
	}
}

// kindOf returns the kind of an error, or "internal".
func kindOf(err error) perdure.Kind {
	var kind perdure.Kind
	if errors.As(err, &kind) {
		return kind
	}
	return "internal"
}
