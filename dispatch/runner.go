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

// DefaultGrace is the default grace period between the request to stop and the fence.
const DefaultGrace = 10 * time.Second

// DefaultKillWait is the default time between a Killer's signal and its use of force.
const DefaultKillWait = 2 * time.Second

// Config says how a Runner stops work. The zero value is usable.
type Config struct {
	Grace    time.Duration // the grace period; 0: DefaultGrace. The fence comes KillWait later
	KillWait time.Duration // 0: DefaultKillWait
	Log      *slog.Logger  // nil: discarded
}

// Work is one execution.
type Work struct {
	ID       string // unique among running work
	Session  perdure.SessionID
	Turn     perdure.TurnID // the turn that waits for it
	Lane     perdure.Lane   // in which it starts
	Deadline time.Time      // zero: none
	Run      func(ctx context.Context) tool.Result
	Kill     func(force bool) // nil: only the context stops the work
	// Force ends the work without a grace period, after its context has ended. It is called once,
	// and only for Runner.Force. nil: Kill with force, if there is a Kill.
	Force func()
	// End is called exactly once, from a goroutine of the runner: when the work returned, or when
	// it did not return within the grace period.
	End func(End)
	// Gone, if set, is called once, after the work has really returned and its slot is free.
	SlotReleased func()

	// OutsideSessionSlots says that the work uses none of its session's slots, whatever its lane.
	OutsideSessionSlots bool

	// SoftBudget is the execution time after which Detach is called; 0 or less: never. It is only
	// for work that starts in the foreground.
	SoftBudget time.Duration
	// Detach is called when Soft has passed or Runner.Detach was called. On true, the work is in
	// the background from then on. On false it stays in the foreground, and if Soft has passed,
	// Detach is called again a second later. It is called from a goroutine of the runner, once at a
	// time, never together with End and never after it: work that returns meanwhile waits for the
	// answer. nil: the work never detaches.
	Detach func() bool
	// Stall is the time without a sign of life (see Runner.Touch) after which the work is stopped
	// with perdure.CauseStall, in the same way as at a deadline. 0: no limit.
	Stall time.Duration
}

// End is how an execution ended.
type End struct {
	Result      tool.Result
	Lane        perdure.Lane  // in which it ended
	Cause       perdure.Cause // why its context ended; empty: it returned by itself
	DidNotStop  bool          // it is still running; everything it does from now on is lost
	SignalledAt time.Time     // when it received the signal to stop; zero: never
	ReturnedAt  time.Time     // zero: it has not returned
}

// Runner runs work. It is safe for concurrent use.
type Runner struct {
	cfg       Config
	root      context.Context // parent of all work; never the context of a turn
	stop      context.CancelCauseFunc
	startedAt time.Time // the zero of the runner's clock

	mu   sync.Mutex      // locked before the mu of a run
	runs map[string]*run // guarded by mu; by Work.ID, until the work has returned
	idle chan struct{}   // guarded by mu; closed and replaced when work returns
}

// NewRunner returns a runner whose work can run until Shutdown or until root ends.
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
	return &Runner{cfg: cfg, root: ctx, stop: stop, startedAt: time.Now(), runs: map[string]*run{}, idle: make(chan struct{})}
}

// Start runs work in a goroutine of its own. Conflict: work with this id is already running.
// Unavailable: the runner is shut down. The work can be canceled as soon as Start has returned.
func (d *Runner) Start(w Work) error {
	ctx, cancel := context.WithCancelCause(d.root)
	r := &run{work: w, cancel: cancel, lane: w.Lane}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root.Err() != nil {
		cancel(perdure.CauseShutdown)
		return fmt.Errorf("start %s: %w: shutting down", w.ID, perdure.Unavailable)
	}
	if d.runs[w.ID] != nil {
		cancel(perdure.CauseSuperseded)
		return fmt.Errorf("start %s: %w: it is already running", w.ID, perdure.Conflict)
	}
	d.runs[w.ID] = r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clocks = newClocks(w, d.now())
	d.arm(r)
	go d.runWork(ctx, r)
	return nil
}

// now returns the time on the runner's monotonic clock.
func (d *Runner) now() time.Duration { return time.Since(d.startedAt) }

// runWork runs the work and reports its end. If the fence has already reported the end, carry waits
// until that report is complete, because Gone must come after End.
func (d *Runner) runWork(ctx context.Context, r *run) {
	result := protect(d.cfg.Log, func() tool.Result { return r.work.Run(ctx) }, "work", r.work.ID, "session", r.work.Session)
	d.mu.Lock()
	r.mu.Lock()
	r.returned = true // from here on, nothing can stop or detach it
	d.mu.Unlock()
	d.arm(r)
	r.awaitDetachDecision()
	end := End{Result: result, Lane: r.lane, Cause: r.cause, SignalledAt: r.signalled, ReturnedAt: time.Now()}
	fenceReported := r.fenceReported
	r.mu.Unlock()
	if end.Cause == "" {
		end.Cause = perdure.CauseOf(ctx)
	}
	if fenceReported == nil {
		r.work.End(end)
	} else {
		<-fenceReported // SlotReleased comes after End
	}
	r.cancel(nil)
	d.mu.Lock()
	delete(d.runs, r.work.ID)
	close(d.idle)
	d.idle = make(chan struct{})
	d.mu.Unlock()
	if r.work.SlotReleased != nil {
		r.work.SlotReleased()
	}
}

// protect turns a panic of run into an internal error. The stack only goes to the log; ids are
// attributes for the log.
func protect(log *slog.Logger, run func() tool.Result, ids ...any) (result tool.Result) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("tool panicked", append(ids, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))...)
			result = tool.Internal(fmt.Errorf("panic: %v", p))
			result.ErrorKind = perdure.ErrorPanic
		}
	}()
	return run()
}

// Done returns a channel that is closed when the runner shuts down.
func (d *Runner) Done() <-chan struct{} { return d.root.Done() }

// Running reports whether work has not returned yet.
func (d *Runner) Running(id string) bool { return d.run(id) != nil }

// Paused reports whether work that has not returned yet is paused.
func (d *Runner) Paused(id string) bool {
	r := d.run(id)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused
}

// run returns the run with this id, or nil.
func (d *Runner) run(id string) *run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[id]
}

// SlotsInUse counts the background work that holds a slot, of one session and of the process.
// Paused work holds none. Detached work counts only for the process; [Runner.DetachedCall] counts
// it per session. The numbers are derived from the running work, so nothing of a session remains
// after its last run.
func (d *Runner) SlotsInUse(session perdure.SessionID) (ofSession, ofProcess int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runs {
		if !r.holdsSlot() {
			continue
		}
		ofProcess++
		if r.work.Session == session && !r.detached() && !r.work.OutsideSessionSlots {
			ofSession++
		}
	}
	return ofSession, ofProcess
}

// Detached counts the detached work of a session that is not paused. It has a limit of its own.
func (d *Runner) Detached(session perdure.SessionID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, r := range d.runs {
		if r.holdsSlot() && r.detached() && r.work.Session == session {
			n++
		}
	}
	return n
}

// Shutdown ends all contexts with CauseShutdown and waits until all work has returned or ctx ends.
// It returns how much work is left. Stopping the runner does not fail or cancel any work.
func (d *Runner) Shutdown(ctx context.Context) int {
	d.mu.Lock()
	d.stop(perdure.CauseShutdown)
	d.mu.Unlock()
	return d.WaitIdle(ctx)
}

// WaitIdle waits until no work is running or ctx ends. It returns how much work is left.
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
