package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// DefaultGrace is the time between the request to stop and the fence (RC3).
const DefaultGrace = 10 * time.Second

// DefaultKillWait is the time between a Killer's signal and its force (RC4).
const DefaultKillWait = 2 * time.Second

// Config says how a Runner stops work. The zero value is usable.
type Config struct {
	Grace    time.Duration // that work has to stop by itself; 0: DefaultGrace. The fence comes KillWait later
	KillWait time.Duration // 0: DefaultKillWait
	Log      *slog.Logger  // nil: discarded
}

// Work is one execution.
type Work struct {
	ID       string            // unique among what runs
	Session  perdure.SessionID //
	Turn     perdure.TurnID    // the turn that waits for it
	Lane     perdure.Lane      //
	Deadline time.Time         // zero: none (LN4)
	Run      func(ctx context.Context) tool.Result
	Kill     func(force bool) // nil: the context is all there is
	// End is called exactly once, from a goroutine of the dispatcher: when the work returned, or when it
	// did not within the grace.
	End func(End)
	// Gone, if set, is called once when the work has really returned and its place is free.
	Gone func()
}

// End is how an execution ended.
type End struct {
	Result      tool.Result
	Cause       perdure.Cause // why its context ended; empty: by itself
	DidNotStop  bool          // it is still there; whatever it does from now on is lost (RC6)
	SignalledAt time.Time     // when the cancel reached it; zero: never
	ReturnedAt  time.Time     // zero: it did not
}

// Runner runs work. It is safe for concurrent use.
type Runner struct {
	cfg  Config
	root context.Context // of all work: never a turn's (TL4, LN9)
	stop context.CancelCauseFunc

	mu   sync.Mutex
	runs map[string]*run // guarded by mu; by Work.ID, until returned
	idle chan struct{}   // guarded by mu; closed and replaced when a run returns
}

// run is one execution in work.
type run struct {
	work   Work
	cancel context.CancelCauseFunc
	end    sync.Once

	mu        sync.Mutex
	cause     perdure.Cause // guarded by mu
	signalled time.Time     // guarded by mu
	fence     *time.Timer   // guarded by mu
	deadline  *time.Timer   // guarded by mu
}

// New returns a dispatcher whose work lives until Shutdown or until root ends.
func NewRunner(root context.Context, cfg Config) *Runner {
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.KillWait <= 0 {
		cfg.KillWait = DefaultKillWait
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(root))
	context.AfterFunc(root, func() { stop(perdure.CauseShutdown) })
	return &Runner{cfg: cfg, root: ctx, stop: stop, runs: map[string]*run{}, idle: make(chan struct{})}
}

// Start runs work in a goroutine of its own. Conflict: work with this id runs already. Unavailable: the
// dispatcher is shut down. The work can be cancelled from the moment Start returns (LN15).
func (d *Runner) Start(w Work) error {
	ctx, cancel := context.WithCancelCause(d.root)
	r := &run{work: w, cancel: cancel}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root.Err() != nil {
		cancel(perdure.CauseShutdown)
		return fmt.Errorf("start %s: %w: shutting down", w.ID, perdure.Unavailable)
	}
	if d.runs[w.ID] != nil {
		cancel(perdure.CauseSuperseded)
		return fmt.Errorf("start %s: %w: it runs already", w.ID, perdure.Conflict)
	}
	d.runs[w.ID] = r
	if !w.Deadline.IsZero() {
		r.deadline = time.AfterFunc(time.Until(w.Deadline), func() { d.stopRun(r, perdure.CauseDeadline) })
	}
	go d.carry(ctx, r)
	return nil
}

// carry runs the work and tells its end.
func (d *Runner) carry(ctx context.Context, r *run) {
	result := d.guarded(ctx, r.work)
	r.mu.Lock()
	cause, signalled := r.cause, r.signalled
	for _, timer := range []*time.Timer{r.fence, r.deadline} {
		if timer != nil {
			timer.Stop()
		}
	}
	r.mu.Unlock()
	if cause == "" {
		cause = perdure.CauseOf(ctx)
	}
	r.end.Do(func() {
		r.work.End(End{Result: result, Cause: cause, SignalledAt: signalled, ReturnedAt: time.Now()})
	})
	r.cancel(nil)
	d.mu.Lock()
	delete(d.runs, r.work.ID)
	close(d.idle)
	d.idle = make(chan struct{})
	d.mu.Unlock()
	if r.work.Gone != nil {
		r.work.Gone()
	}
}

// guarded runs the work and turns a panic into an internal error; the stack goes to the log only (TL5, LN16).
func (d *Runner) guarded(ctx context.Context, w Work) (result tool.Result) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("a tool panicked", "work", w.ID, "session", w.Session, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result = tool.Internal(fmt.Errorf("panic: %v", p))
			result.ErrorAs = perdure.ErrorPanic
		}
	}()
	return w.Run(ctx)
}

// Cancel asks work to stop, with a cause, and reports whether it runs. Asking again does nothing.
func (d *Runner) Cancel(id string, cause perdure.Cause) bool {
	d.mu.Lock()
	r := d.runs[id]
	d.mu.Unlock()
	if r == nil {
		return false
	}
	d.stopRun(r, cause)
	return true
}

// Interrupt cancels the foreground work of a turn and says how much that was. Background work of the same
// turn is untouched (RC8).
func (d *Runner) Interrupt(turn perdure.TurnID) int {
	d.mu.Lock()
	var hit []*run
	for _, r := range d.runs {
		if r.work.Turn == turn && r.work.Lane == perdure.Foreground {
			hit = append(hit, r)
		}
	}
	d.mu.Unlock()
	for _, r := range hit {
		d.stopRun(r, perdure.CauseInterrupt)
	}
	return len(hit)
}

// stopRun is the first phase of a cancel; the fence is the second (RC3 to RC6).
func (d *Runner) stopRun(r *run, cause perdure.Cause) {
	r.mu.Lock()
	if r.cause != "" {
		r.mu.Unlock()
		return
	}
	r.cause, r.signalled = cause, time.Now()
	r.fence = time.AfterFunc(d.cfg.Grace+d.cfg.KillWait, func() { d.fenceRun(r) })
	r.mu.Unlock()
	r.cancel(cause)
	if r.work.Kill != nil {
		go d.kill(r)
	}
}

// kill signals a tool that needs more than its context, then forces it (RC4).
func (d *Runner) kill(r *run) {
	d.killOnce(r, false)
	time.AfterFunc(d.cfg.KillWait, func() {
		if d.Running(r.work.ID) {
			d.killOnce(r, true)
		}
	})
}

// killOnce calls the tool's own Kill; a panic in it stops nothing else.
func (d *Runner) killOnce(r *run, force bool) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("a tool panicked while it was killed", "work", r.work.ID, "panic", fmt.Sprint(p))
		}
	}()
	r.work.Kill(force)
}

// fenceRun ends work that did not stop. Its place stays taken until it returns.
func (d *Runner) fenceRun(r *run) {
	r.mu.Lock()
	cause, signalled := r.cause, r.signalled
	r.mu.Unlock()
	r.end.Do(func() {
		d.cfg.Log.Warn("work did not stop within the grace", "work", r.work.ID, "session", r.work.Session, "cause", cause)
		r.work.End(End{Cause: cause, SignalledAt: signalled, DidNotStop: true})
	})
}

// Done is closed when the dispatcher shuts down.
func (d *Runner) Done() <-chan struct{} { return d.root.Done() }

// Running reports whether work has not returned yet.
func (d *Runner) Running(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[id] != nil
}

// Places counts the background work that holds a place: of one session, and of the whole process.
// It is derived from what runs; nothing of a session stays after its last run (BG16).
func (d *Runner) Places(session perdure.SessionID) (ofSession, ofProcess int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runs {
		if r.work.Lane != perdure.Background {
			continue
		}
		ofProcess++
		if r.work.Session == session {
			ofSession++
		}
	}
	return ofSession, ofProcess
}

// Shutdown ends all contexts with CauseShutdown and returns when all work has returned, or with ctx; it
// says how much was left. Nothing is failed or canceled because the runtime stops (RC11).
func (d *Runner) Shutdown(ctx context.Context) int {
	d.mu.Lock()
	d.stop(perdure.CauseShutdown)
	d.mu.Unlock()
	return d.WaitIdle(ctx)
}

// WaitIdle returns when no work runs, or with ctx; it says how much was left.
func (d *Runner) WaitIdle(ctx context.Context) int {
	for {
		d.mu.Lock()
		left, idle := len(d.runs), d.idle
		d.mu.Unlock()
		if left == 0 {
			return 0
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return left
		}
	}
}
