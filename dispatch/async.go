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

// Async runs each call in a goroutine of its own, in a lane. NewAsync makes one, and Shutdown ends
// it.
//
// It stores live tasks, results that nobody has taken yet, and the newest ended tasks
// (LoopConfig.Keep). The state of a turn is removed when the turn has nothing more to wait for, and
// [Handle.Reset] removes a session.
type Async struct {
	cfg        LoopConfig
	log        *slog.Logger
	runner     *Runner
	hostEvents *Subscription  // for Handle().NextEvent
	group      sync.WaitGroup // of goroutines that retry to record the end of a task

	mu      sync.Mutex // guards everything below; locked before any lock of the runner
	tasks   map[perdure.TaskID]*task
	live    map[perdure.TaskID]*task // tasks that have not ended
	ended   []perdure.TaskID         // ids of ended tasks, the oldest first
	turns   map[perdure.TurnID]*turn
	pending []pendingResolution // to deliver to the loops, in the order of their ends
	ready   []readyItem         // to drain by the host
	// sessions with a continue request since they last took their pending results
	continueRequested map[perdure.SessionID]bool
	lastNumber        int64
	queue             []*task            // waiting for a slot, the oldest first
	admitted          map[*task]struct{} // background starts that have a slot and wait for the journal
	events            events
	changed           chan struct{} // closed and reset at every change; nil: nobody waits
	closed            bool
}

// NewAsync returns a dispatcher that works until Shutdown or until root ends. An unusable cfg is
// Invalid.
func NewAsync(root context.Context, cfg LoopConfig) (*Async, error) {
	cfg, err := cfg.withDefaults()
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
		turns: map[perdure.TurnID]*turn{}, continueRequested: map[perdure.SessionID]bool{}, admitted: map[*task]struct{}{}, events: events{ring: make([]Event, cfg.MaxEvents)},
	}
	a.hostEvents = &Subscription{a: a}
	return a, nil
}

// Start begins a call and returns without waiting for the tool.
func (a *Async) Start(ctx context.Context, l Launch) (StartResult, error) {
	t, err := a.reserve(&l)
	if err != nil {
		return StartResult{}, err
	}
	if err := a.cfg.Journal.Begin(ctx, a.snapshot(t), l); err != nil {
		a.release(t)
		return StartResult{}, fmt.Errorf("start task %s: %w", t.id, err)
	}
	if err := a.claim(ctx, t, l); err != nil {
		a.release(t)
		return StartResult{}, err
	}
	out, err := a.startReserved(ctx, t, l)
	if t.current.Lane == perdure.Background {
		a.startQueued() // the slot reserved for it may not have been needed
		a.evict(t.call.Session)
	}
	return out, err
}

// claim claims the approval of a launch. It is the last step before the call runs.
func (a *Async) claim(ctx context.Context, t *task, l Launch) error {
	a.mu.Lock()
	runs := l.Approval != nil && refusalResult(l, t.pendingApproval(), time.Now()) == nil
	a.mu.Unlock()
	if !runs {
		return nil
	}
	return a.cfg.claimApproval(ctx, l)
}

// reserve finds or creates the task of a launch, and prevents a concurrent second start of it.
func (a *Async) reserve(l *Launch) (*task, error) {
	if t := a.resumedTask(*l); t != nil && l.Call.Tool == "" {
		l.Call = t.call // noTime changes
	}
	if err := checkCall(l.Call); err != nil {
		return nil, err
	}
	if l.Task == "" {
		l.Task = a.cfg.NewID()
	}
	l.Call = callFor(*l)
	routed := l.Call
	patched, err := replacementArgs(*l)
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
	if err := a.cfg.checkApprovalOpen(*l, t != nil); err != nil {
		return nil, err
	}
	switch {
	case t != nil && (l.Approval == nil || t.starting):
		return nil, fmt.Errorf("start task %s: %w: it already exists", l.Task, perdure.Conflict)
	case t != nil && !t.awaitsApproval():
		return nil, fmt.Errorf("start task %s: %w: already closed", l.Task, perdure.Conflict)
	case t != nil && t.lane == perdure.Background:
		next.Lane = perdure.Background // a call never moves back to the foreground
	}
	starts := false
	if next.Lane == perdure.Background {
		if starts, err = a.admit(l.Call.Session); err != nil {
			a.reject(t, *l, err)
			return nil, fmt.Errorf("start task %s: %w", l.Task, err)
		}
	}
	if t == nil {
		t = &task{id: l.Task, number: a.nextNumber(), call: completeCall(l.Call, spec), spec: spec, routing: next, metadata: maps.Clone(l.Metadata)}
		a.tasks[t.id] = t
	}
	t.starting, t.current = true, next
	if starts {
		a.admitted[t] = struct{}{}
	}
	return t, nil
}

// reject reports a start for which there is no slot. The caller holds mu.
func (a *Async) reject(t *task, l Launch, why error) {
	s := Snapshot{
		Task: l.Task, Session: l.Call.Session, Turn: l.Call.Turn, Call: l.Call.ID, Tool: l.Call.Tool, Lane: perdure.Background, Metadata: l.Metadata,
	}
	if t != nil {
		s = t.snapshot()
	}
	a.publish(Event{Kind: EventRejected, Task: s, Why: why.Error()})
	a.log.Warn("start refused: no free slot", "task", s.Task, "tool", s.Tool, "session", s.Session, "call", s.Call,
		"why", why)
}

// nextNumber returns the next number for ordering tasks by time. The caller holds mu.
func (a *Async) nextNumber() int64 {
	a.lastNumber++
	return a.lastNumber
}

// resumedTask returns the task that a launch continues, or nil.
func (a *Async) resumedTask(l Launch) *task {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tasks[l.Task]; t != nil && l.Approval != nil {
		return t
	}
	return nil
}

// release undoes the reservation of a start that failed.
func (a *Async) release(t *task) {
	defer a.startQueued() // the slot reserved for it
	a.mu.Lock()
	defer a.mu.Unlock()
	t.starting = false
	delete(a.admitted, t)
	if t.state == "" {
		delete(a.tasks, t.id)
	}
	a.notify(t)
}

// startReserved starts a task after the journal accepted it, or ends it if a person denied it.
func (a *Async) startReserved(ctx context.Context, t *task, l Launch) (StartResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, starts := a.admitted[t]
	delete(a.admitted, t)
	t.starting = false
	if t.settling {
		return StartResult{}, fmt.Errorf("start task %s: %w: already closed", t.id, perdure.Conflict)
	}
	refusal := refusalResult(l, t.pendingApproval(), time.Now())
	t.applyLaunch(l)
	fresh, was := t.state == "", t.lane
	if refusal != nil {
		t.state = perdure.TaskAwaitingInput
		if fresh {
			t.lane = perdure.Foreground // so that the turn gets its result
			a.addLive(t)
		}
		out := StartResult{Task: t.id, Lane: t.lane}
		a.settleNotStarted(t, End{Result: *refusal})
		return out, nil
	}
	t.lane, t.approval, t.values = t.current.Lane, l.Approval, context.WithoutCancel(ctx)
	if patched, _ := replacementArgs(l); patched != nil {
		t.call.Args = patched
	}
	if t.lane == perdure.Background && was != t.lane {
		t.backgroundSince = a.nextNumber()
	}
	if was == perdure.Foreground && t.lane != was {
		a.leaveTurn(t)
	}
	if fresh {
		a.addLive(t)
	}
	if err := a.startOrQueue(ctx, t, starts); err != nil {
		return StartResult{}, err
	}
	out := StartResult{Task: t.id, Lane: t.lane}
	if t.lane == perdure.Background && was != perdure.Background {
		result := RoutedPlaceholder(t.call.Tool, t.id, t.deadline).ForTools(a.cfg.Offers).Result(t.call.ID)
		out.Placeholder = &result
		if !fresh {
			a.publish(Event{Kind: EventDetached, Task: t.snapshot(), Result: &result})
		}
	}
	return out, nil
}

// startOrQueue executes a task, or queues it if no slot was reserved for it and none is free. The
// caller holds mu.
func (a *Async) startOrQueue(ctx context.Context, t *task, starts bool) error {
	if t.lane == perdure.Background && !starts && (a.queuedIn(t.call.Session) > 0 || !a.slotFree(t.call.Session)) {
		t.state = perdure.TaskQueued
		a.queue = append(a.queue, t)
		a.publish(Event{Kind: EventQueued, Task: t.snapshot()})
		a.log.Info("call waiting for a slot", "task", t.id, "tool", t.call.Tool, "session", t.call.Session,
			"call", t.call.ID, "queued", a.queuedIn(t.call.Session))
		return nil
	}
	if err := a.execute(t); err != nil { // shut down meanwhile
		a.abandon(t)
		return err
	}
	if t.lane == perdure.Foreground { // after the start: a ctx that has already ended must find the work
		run := t.run
		t.stopLink = context.AfterFunc(ctx, func() { a.runner.InterruptWork(run) })
	}
	return nil
}

// execute starts an execution. The caller holds mu. The work can be canceled before its start is
// published, because the runner's End callback also needs mu and therefore waits.
func (a *Async) execute(t *task) error {
	t.executions++
	t.run = fmt.Sprintf("%s#%d", t.id, t.executions) // the previous execution may still be running
	t.startedAt = time.Now()
	t.deadline = t.startedAt.Add(a.cfg.deadlineOf(t.call, t.spec))
	t.outcome, t.interrupted = nil, false
	call, approved, run := t.call, t.approval, t.run
	values := context.WithValue(t.values, aliveKey{}, func() { a.runner.Touch(run) })
	call.Deadline = t.deadline
	if t.lane == perdure.Background {
		call.Task, call.Attempt = t.id, 1
	}
	w := Work{
		ID: t.run, Session: call.Session, Turn: call.Turn, Lane: t.lane, Deadline: t.deadline, SoftBudget: t.current.Soft, Stall: t.spec.Stall,
		Run: func(ctx context.Context) tool.Result {
			out := a.cfg.Execute(withValues{ctx, values}, call, approved)
			if out.Approval != nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				t.outcome = &out
			}
			return out.Result
		},
		Detach:       func() bool { return a.detach(t) },
		End:          func(end End) { a.executionEnded(t, end) },
		SlotReleased: a.startQueued,
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

// TakePending removes and returns the results of background work for a loop.
func (a *Async) TakePending(session perdure.SessionID) []Resolution {
	a.mu.Lock()
	defer a.mu.Unlock()
	var matching []Resolution
	var left []pendingResolution
	for _, p := range a.pending {
		if session == "" || p.session == session {
			matching = append(matching, p.Resolution)
			delete(a.continueRequested, p.session)
			continue
		}
		left = append(left, p)
	}
	a.pending = left
	a.wake(&a.changed)
	return matching
}

// InterruptTurn cancels the foreground calls of a turn.
func (a *Async) InterruptTurn(id perdure.TurnID) {
	a.mu.Lock()
	if t := a.turns[id]; t != nil {
		for _, call := range slices.Clone(t.calls) {
			call.interrupted = true // also stops a call that is about to request an approval
			if call.state == perdure.TaskAwaitingInput && !call.settling {
				a.settleNotStarted(call, End{Result: stoppedBeforeStart(perdure.CauseInterrupt)})
			}
		}
	}
	a.mu.Unlock()
	a.runner.Interrupt(id)
}

// Handle returns what a host can do with the tasks.
func (a *Async) Handle() Handle { return Handle{a: a, events: a.hostEvents} }

// Shutdown ends all contexts with perdure.CauseShutdown and waits until all work has returned or
// ctx ends. It returns how much work is left. Stopping the dispatcher does not fail or cancel any
// task. Goroutines that wait in the dispatcher's methods return.
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
