package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

var _ Dispatcher = (*Async)(nil)

// Async runs each call in a goroutine of its own, in a lane. Make one with NewAsync, and end it with Shutdown.
//
// It remembers what lives, what nobody has taken yet, and the newest of what has ended (LoopConfig.Keep); what belongs to
// a turn goes when the turn has nothing more to wait for, and [Handle.Forget] drops a session.
type Async struct {
	cfg    LoopConfig
	log    *slog.Logger
	runner *Runner
	host   *Subscription  // of Handle().NextEvent
	group  sync.WaitGroup // ends that are recorded again

	mu       sync.Mutex // guards all below; taken before any of the runner's
	tasks    map[perdure.TaskID]*task
	live     map[perdure.TaskID]*task // those that have not ended
	ended    []perdure.TaskID         // those that have, the oldest first
	turns    map[perdure.TurnID]*turn
	pending  []late                     // for the loops, in the order in which they ended
	ready    []lateItem                 // for the host
	asksFor  map[perdure.SessionID]bool // a turn was asked for since the session last took what was pending
	made     int64
	queue    []*task            // for a place, the oldest first
	admitted map[*task]struct{} // background starts that have a slot and ask the journal
	events   events
	changed  chan struct{} // closed and forgotten when anything changes; nil: nobody waits
	closed   bool
}

// NewAsync returns a dispatcher whose work lives until Shutdown, or until root ends. Invalid: cfg cannot be used.
func NewAsync(root context.Context, cfg LoopConfig) (*Async, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	if cfg.Runner.Log == nil {
		cfg.Runner.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Journal == nil {
		cfg.Journal = noJournal{}
	}
	a := &Async{
		cfg: cfg, log: cfg.Runner.Log, runner: NewRunner(root, cfg.Runner), tasks: map[perdure.TaskID]*task{}, live: map[perdure.TaskID]*task{},
		turns: map[perdure.TurnID]*turn{}, asksFor: map[perdure.SessionID]bool{}, admitted: map[*task]struct{}{}, events: events{ring: make([]Event, cfg.Replay)},
	}
	a.host = &Subscription{a: a}
	return a, nil
}

// Start begins a call and returns at once, whatever the tool does.
func (a *Async) Start(ctx context.Context, l Launch) (StartOutcome, error) {
	t, err := a.reserve(&l)
	if err != nil {
		return StartOutcome{}, err
	}
	if err := a.cfg.Journal.Begin(ctx, a.snapshot(t), l); err != nil {
		a.release(t)
		return StartOutcome{}, fmt.Errorf("start task %s: %w", t.id, err)
	}
	if err := a.claim(ctx, t, l); err != nil {
		a.release(t)
		return StartOutcome{}, err
	}
	out, err := a.begin(ctx, t, l)
	if t.next.Lane == perdure.Background {
		a.freed() // the slot that was held for it may not have been needed
		a.evict(t.call.Session)
	}
	return out, err
}

// claim claims the approval of a launch that is about to run: the last thing before it does.
func (a *Async) claim(ctx context.Context, t *task, l Launch) error {
	a.mu.Lock()
	runs := l.Approval != nil && refused(l, t.question(), time.Now()) == nil
	a.mu.Unlock()
	if !runs {
		return nil
	}
	return a.cfg.use(ctx, l)
}

// reserve finds the task of a launch or makes it, and keeps others from starting it too.
func (a *Async) reserve(l *Launch) (*task, error) {
	if t := a.asked(*l); t != nil && l.Call.Tool == "" {
		l.Call = t.call // which does not change
	}
	if err := checkCall(l.Call); err != nil {
		return nil, err
	}
	if l.Task == "" {
		l.Task = a.cfg.NewID()
	}
	routed := l.Call
	patched, err := patch(*l)
	if err != nil {
		return nil, err
	}
	if patched != nil {
		routed.Args = patched
	}
	spec := a.cfg.Spec(l.Call.Tool)
	next := RouteCall(l.Spawned, a.cfg.Route(routed), spec.SoftBudget)

	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.runner.root.Err() != nil {
		return nil, fmt.Errorf("start task %s: %w: shutting down", l.Task, perdure.Unavailable)
	}
	t := a.tasks[l.Task]
	if err := a.cfg.known(*l, t != nil); err != nil {
		return nil, err
	}
	switch {
	case t != nil && (l.Approval == nil || t.begins):
		return nil, fmt.Errorf("start task %s: %w: it exists already", l.Task, perdure.Conflict)
	case t != nil && !t.open():
		return nil, fmt.Errorf("start task %s: %w: already closed", l.Task, perdure.Conflict)
	case t != nil && t.lane == perdure.Background:
		next.Lane = perdure.Background // nothing moves back (LN1)
	}
	starts := false
	if next.Lane == perdure.Background {
		if starts, err = a.admit(l.Call.Session); err != nil {
			a.reject(t, *l, err)
			return nil, fmt.Errorf("start task %s: %w", l.Task, err)
		}
	}
	if t == nil {
		t = &task{id: l.Task, number: a.order(), call: filled(l.Call, spec), spec: spec, routing: next, metadata: maps.Clone(l.Metadata)}
		a.tasks[t.id] = t
	}
	t.begins, t.next = true, next
	if starts {
		a.admitted[t] = struct{}{}
	}
	return t, nil
}

// reject tells of a start for which there is no slot. mu is held.
func (a *Async) reject(t *task, l Launch, why error) {
	s := Snapshot{
		Task: l.Task, Session: l.Call.Session, Turn: l.Call.Turn, Call: l.Call.ID, Tool: l.Call.Tool, Lane: perdure.Background, Metadata: l.Metadata,
	}
	if t != nil {
		s = t.snapshot()
	}
	a.publish(Event{Kind: EventRejected, Task: s, Why: why.Error()})
	a.log.Warn("a start is refused: no slot is free", "task", s.Task, "tool", s.Tool, "session", s.Session, "call", s.Call, "why", why)
}

// order is the next number of those that tell what came first. mu is held.
func (a *Async) order() int64 {
	a.made++
	return a.made
}

// asked returns the task that a launch goes on with, or nil.
func (a *Async) asked(l Launch) *task {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tasks[l.Task]; t != nil && l.Approval != nil {
		return t
	}
	return nil
}

// release gives up a start that the journal refused.
func (a *Async) release(t *task) {
	defer a.freed() // the slot that was held for it
	a.mu.Lock()
	defer a.mu.Unlock()
	t.begins = false
	delete(a.admitted, t)
	if t.state == "" {
		delete(a.tasks, t.id)
	}
	a.notify(t)
}

// begin is the start of a task that the journal agreed to, or its end if a person did.
func (a *Async) begin(ctx context.Context, t *task, l Launch) (StartOutcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, starts := a.admitted[t]
	delete(a.admitted, t)
	t.begins = false
	if t.settling {
		return StartOutcome{}, fmt.Errorf("start task %s: %w: already closed", t.id, perdure.Conflict)
	}
	refusal := refused(l, t.question(), time.Now())
	t.set(l)
	fresh, was := t.state == "", t.lane
	if refusal != nil {
		t.state = perdure.TaskAwaitingInput
		if fresh {
			t.lane = perdure.Foreground // so that the turn has its result at once
			a.join(t)
		}
		out := StartOutcome{Task: t.id, Lane: t.lane}
		a.settleSoon(t, End{Result: *refusal})
		return out, nil
	}
	t.lane, t.approval, t.values = t.next.Lane, l.Approval, context.WithoutCancel(ctx)
	if patched, _ := patch(l); patched != nil {
		t.call.Args = patched
	}
	if t.lane == perdure.Background && was != t.lane {
		t.since = a.order()
	}
	if was == perdure.Foreground && t.lane != was {
		a.leaveTurn(t)
	}
	if fresh {
		a.join(t)
	}
	if err := a.enter(ctx, t, starts); err != nil {
		return StartOutcome{}, err
	}
	out := StartOutcome{Task: t.id, Lane: t.lane}
	if t.lane == perdure.Background && was != perdure.Background {
		result := RoutedPlaceholder(t.call.Tool, t.id, t.deadline).Offering(a.cfg.Offers).Result(t.call.ID)
		out.Placeholder = &result
		if !fresh {
			a.publish(Event{Kind: EventDetached, Task: t.snapshot(), Result: &result})
		}
	}
	return out, nil
}

// enter executes a task, or lets it wait for a slot where none was held for it. mu is held.
func (a *Async) enter(ctx context.Context, t *task, starts bool) error {
	if t.lane == perdure.Background && !starts && (a.waiting(t.call.Session) > 0 || !a.free(t.call.Session)) {
		t.state = perdure.TaskQueued
		a.queue = append(a.queue, t)
		a.publish(Event{Kind: EventQueued, Task: t.snapshot()})
		a.log.Info("a call waits for a slot", "task", t.id, "tool", t.call.Tool, "session", t.call.Session, "call", t.call.ID, "queued", a.waiting(t.call.Session))
		return nil
	}
	if err := a.execute(t); err != nil { // shut down in this moment
		a.abandon(t)
		return err
	}
	if t.lane == perdure.Foreground { // after the start, so that an end that has come already finds the work
		run := t.run
		t.unlink = context.AfterFunc(ctx, func() { a.runner.InterruptWork(run) })
	}
	return nil
}

// execute begins an execution. The work can be cancelled before anybody hears of it (LN15): its end has to wait for mu,
// which is held.
func (a *Async) execute(t *task) error {
	t.runs++
	t.run = fmt.Sprintf("%s#%d", t.id, t.runs) // the run before may not be gone yet
	t.begun = time.Now()
	t.deadline = t.begun.Add(a.cfg.deadlineOf(t.call, t.spec))
	t.outcome, t.interrupted = nil, false
	call, approved, run := t.call, t.approval, t.run
	values := context.WithValue(t.values, aliveKey{}, func() { a.runner.Touch(run) })
	call.Deadline = t.deadline
	if t.lane == perdure.Background {
		call.Task, call.Attempt = t.id, 1
	}
	w := Work{
		ID: t.run, Session: call.Session, Turn: call.Turn, Lane: t.lane, Deadline: t.deadline, Soft: t.next.Soft, Stall: t.spec.Stall,
		Run: func(ctx context.Context) tool.Result {
			out := a.cfg.Execute(withValues{ctx, values}, call, approved)
			if out.Approval != nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				t.outcome = &out
			}
			return out.Result
		},
		Detach: func() bool { return a.detach(t) },
		End:    func(end End) { a.returned(t, end) },
		Gone:   a.freed,
	}
	if a.cfg.Kill != nil {
		w.Kill = func(force bool) { a.cfg.Kill(call, force) }
	}
	if err := a.runner.Start(w); err != nil {
		return err
	}
	t.state = perdure.TaskRunning
	if !t.announced {
		t.announced = true
		a.publish(Event{Kind: EventStarted, Task: t.snapshot()})
	}
	return nil
}

// WaitTurn returns the next update of a turn.
func (a *Async) WaitTurn(ctx context.Context, id perdure.TurnID) (Update, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		t := a.turns[id]
		if t == nil {
			return Update{}, false
		}
		if len(t.updates) > 0 {
			next := t.updates[0]
			t.updates = t.updates[1:]
			a.pruneTurn(id)
			return next, true
		}
		if !t.busy() || a.closed || ctx.Err() != nil {
			return Update{}, false
		}
		a.await(ctx, &t.changed)
	}
}

// TakePending takes what came home for a loop.
func (a *Async) TakePending(session perdure.SessionID) []Resolution {
	a.mu.Lock()
	defer a.mu.Unlock()
	var taken []Resolution
	var left []late
	for _, p := range a.pending {
		if session == "" || p.session == session {
			taken = append(taken, p.Resolution)
			delete(a.asksFor, p.session)
			continue
		}
		left = append(left, p)
	}
	a.pending = left
	a.wake(&a.changed)
	return taken
}

// InterruptTurn cancels the foreground calls of a turn.
func (a *Async) InterruptTurn(id perdure.TurnID) {
	a.mu.Lock()
	if t := a.turns[id]; t != nil {
		for _, call := range slices.Clone(t.calls) {
			call.interrupted = true // also of what is about to ask a person
			if call.state == perdure.TaskAwaitingInput && !call.settling {
				a.settleSoon(call, End{Result: notEntered(perdure.CauseInterrupt)})
			}
		}
	}
	a.mu.Unlock()
	a.runner.Interrupt(id)
}

// Handle is what a host may do.
func (a *Async) Handle() Handle { return Handle{a: a, events: a.host} }

// Shutdown ends all contexts with perdure.CauseShutdown and returns when all work has returned, or with ctx; it says how
// much was left. Nothing is failed or cancelled because the dispatcher stops (RC11). Who waits is let go.
func (a *Async) Shutdown(ctx context.Context) int {
	left := a.runner.Shutdown(ctx)
	a.mu.Lock()
	a.closed = true
	a.wake(&a.changed)
	for _, t := range a.turns {
		a.wake(&t.changed)
	}
	a.mu.Unlock()
	a.group.Wait()
	return left
}
