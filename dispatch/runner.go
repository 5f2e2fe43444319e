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
	Lane     perdure.Lane      // where it begins
	Deadline time.Time         // zero: none (LN4)
	Run      func(ctx context.Context) tool.Result
	Kill     func(force bool) // nil: the context is all there is
	// End is called exactly once, from a goroutine of the runner: when the work returned, or when it
	// did not within the grace.
	End func(End)
	// Gone, if set, is called once when the work has really returned and its place is free.
	Gone func()

	// Beside says that the work takes none of its session's places, wherever it began (BG16).
	Beside bool

	// Soft is the time of execution until Detach is asked; 0 and less: never. Only for work that begins in
	// the foreground (LN3).
	Soft time.Duration
	// Detach is asked when Soft has passed or Runner.Detach asks; true: the work is background work from now
	// on. False keeps it in the foreground; when Soft has passed, it is asked again a second later (LN7).
	// It is called from a goroutine of the runner, never at the same time as End and not after it, and once
	// at a time: work that returns meanwhile waits for the answer. nil: the work never leaves the foreground.
	Detach func() bool
	// Stall is how long the work may show no sign of life (see Runner.Touch); then it ends with
	// perdure.CauseStall, like one whose deadline passed. 0: for ever (LN4).
	Stall time.Duration
}

// End is how an execution ended.
type End struct {
	Result      tool.Result
	Lane        perdure.Lane  // where it ended
	Cause       perdure.Cause // why its context ended; empty: by itself
	DidNotStop  bool          // it is still there; whatever it does from now on is lost (RC6)
	SignalledAt time.Time     // when the cancel reached it; zero: never
	ReturnedAt  time.Time     // zero: it did not
}

// Runner runs work. It is safe for concurrent use.
type Runner struct {
	cfg   Config
	root  context.Context // of all work: never a turn's (TL4, LN9)
	stop  context.CancelCauseFunc
	began time.Time // what the clocks of runs count from

	mu   sync.Mutex      // taken before the mu of a run
	runs map[string]*run // guarded by mu; by Work.ID, until returned
	idle chan struct{}   // guarded by mu; closed and replaced when a run returns
}

// NewRunner returns a runner whose work lives until Shutdown or until root ends.
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
	return &Runner{cfg: cfg, root: ctx, stop: stop, began: time.Now(), runs: map[string]*run{}, idle: make(chan struct{})}
}

// Start runs work in a goroutine of its own. Conflict: work with this id runs already. Unavailable: the
// runner is shut down. The work can be cancelled from the moment Start returns (LN15).
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
		return fmt.Errorf("start %s: %w: it runs already", w.ID, perdure.Conflict)
	}
	d.runs[w.ID] = r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clocks = newClocks(w, d.now())
	d.arm(r)
	go d.carry(ctx, r)
	return nil
}

// now is the time on the runner's own clock, which no change of the machine's clock moves.
func (d *Runner) now() time.Duration { return time.Since(d.began) }

// carry runs the work and tells its end.
func (d *Runner) carry(ctx context.Context, r *run) {
	result := protect(d.cfg.Log, func() tool.Result { return r.work.Run(ctx) }, "work", r.work.ID, "session", r.work.Session)
	d.mu.Lock()
	r.mu.Lock()
	r.returned = true // from here on nothing stops or detaches it
	d.mu.Unlock()
	d.arm(r)
	r.answered()
	end := End{Result: result, Lane: r.lane, Cause: r.cause, SignalledAt: r.signalled, ReturnedAt: time.Now()}
	told := r.told
	r.mu.Unlock()
	if end.Cause == "" {
		end.Cause = perdure.CauseOf(ctx)
	}
	if told == nil {
		r.work.End(end)
	} else {
		<-told // Gone comes after End
	}
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

// protect runs work and turns a panic into an internal error; the stack goes to the log only (TL5, LN16). ids are for
// the log.
func protect(log *slog.Logger, run func() tool.Result, ids ...any) (result tool.Result) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a tool panicked", append(ids, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))...)
			result = tool.Internal(fmt.Errorf("panic: %v", p))
			result.ErrorAs = perdure.ErrorPanic
		}
	}()
	return run()
}

// Done is closed when the runner shuts down.
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

// run returns what runs under an id, or nil.
func (d *Runner) run(id string) *run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[id]
}

// Places counts the background work that holds a place, which paused work does not (TK15): of one session,
// and of the whole process. Work that detached counts for the process only; [Runner.Detached] has its number.
// It is derived from what runs; nothing of a session stays after its last run (BG16).
func (d *Runner) Places(session perdure.SessionID) (ofSession, ofProcess int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runs {
		if !r.placed() {
			continue
		}
		ofProcess++
		if r.work.Session == session && !r.detached() && !r.work.Beside {
			ofSession++
		}
	}
	return ofSession, ofProcess
}

// Detached counts the work of a session that began in the foreground, runs in the background now, and is not
// paused: it has a cap of its own (BG16).
func (d *Runner) Detached(session perdure.SessionID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, r := range d.runs {
		if r.placed() && r.detached() && r.work.Session == session {
			n++
		}
	}
	return n
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
