package dispatch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

var _ Dispatcher = (*Inline)(nil)

// Inline runs each call in the goroutine of its caller: the simplest loop, without lanes. The
// deadline applies. Routes, caps, soft budgets, stall timeouts and the journal do not. Inline
// remembers the approvals that it requested until they are decided.
type Inline struct {
	cfg LoopConfig

	mu          sync.Mutex
	open        map[perdure.TaskID]PendingApproval // guarded by mu
	oldestFirst []perdure.TaskID                   // guarded by mu; the keys of open, the oldest first
}

// NewInline returns a dispatcher that runs calls in the goroutine of the caller. An unusable cfg is
// Invalid.
func NewInline(cfg LoopConfig) (*Inline, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Runner.Log == nil {
		cfg.Runner.Log = slog.New(slog.DiscardHandler)
	}
	return &Inline{cfg: cfg, open: map[perdure.TaskID]PendingApproval{}}, nil
}

// remember remembers an open approval and forgets the oldest ones beyond cfg.Keep.
func (d *Inline) remember(q PendingApproval) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, again := d.open[q.Task]; !again {
		d.oldestFirst = append(d.oldestFirst, q.Task)
	}
	d.open[q.Task] = q
	for len(d.oldestFirst) > d.cfg.MaxEnded {
		delete(d.open, d.oldestFirst[0])
		d.oldestFirst = d.oldestFirst[1:]
	}
}

// claimOpen removes the approval that a launch decides, so that only one decision counts. It
// returns false if the approval is not open here.
func (d *Inline) claimOpen(l Launch) (q PendingApproval, open bool) {
	if l.Approval == nil {
		return q, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q, open = d.open[l.Task]
	delete(d.open, l.Task)
	d.oldestFirst = slices.DeleteFunc(d.oldestFirst, func(id perdure.TaskID) bool { return id == l.Task })
	return q, open
}

// checkApproval evaluates the decision in a launch. It returns the result of a call that must not
// run, or nil. After an error the approval is as open as before.
func (d *Inline) checkApproval(ctx context.Context, l *Launch) (refusal *tool.Result, err error) {
	q, open := d.claimOpen(*l)
	defer func() {
		if err != nil && open {
			d.remember(q)
		}
	}()
	if open && l.Call.Tool == "" {
		l.Call = q.Call
	}
	if err := checkCall(l.Call); err != nil {
		return nil, err
	}
	patched, err := replacementArgs(*l)
	if err == nil {
		err = d.cfg.checkApprovalOpen(*l, open)
	}
	if err != nil || l.Approval == nil {
		return nil, err
	}
	if !open {
		q = PendingApproval{Task: l.Task, Call: l.Call}
	}
	if refused := refusalResult(*l, q, time.Now()); refused != nil {
		return refused, nil
	}
	if patched != nil {
		l.Call.Args = patched
	}
	return nil, d.cfg.claimApproval(ctx, *l)
}

// Start runs the call and returns how it ended, or the approval that it needs.
func (d *Inline) Start(ctx context.Context, l Launch) (StartResult, error) {
	refusal, err := d.checkApproval(ctx, &l)
	if err != nil {
		return StartResult{}, err
	}
	task := l.Task
	if task == "" {
		task = d.cfg.NewID()
	}
	s := Snapshot{Task: task, Session: l.Call.Session, Turn: l.Call.Turn, Call: l.Call.ID, Tool: l.Call.Tool, Lane: perdure.Foreground, Metadata: l.Metadata}
	if refusal != nil {
		return d.ready(s, l.Call, time.Now(), End{Result: *refusal}), nil
	}
	spec := d.cfg.Spec(l.Call.Tool)
	call := completeCall(callFor(l), spec)
	startedAt := time.Now()
	call.Deadline = startedAt.Add(d.cfg.deadlineOf(call, spec))
	ctx, cancel := context.WithDeadlineCause(ctx, call.Deadline, perdure.CauseDeadline)
	defer cancel()

	var out Outcome
	result := protect(d.cfg.Runner.Log, func() tool.Result {
		out = d.cfg.Execute(ctx, call, l.Approval)
		return out.Result
	}, "task", task, "session", s.Session)
	if out.Approval != nil && ctx.Err() == nil {
		if out.Args != nil {
			call.Args = out.Args
		}
		asked := PendingApproval{Task: task, Call: call, Approval: bindApproval(*out.Approval, s, call)}
		d.remember(asked)
		return StartResult{Task: task, Ready: &Resolution{Task: task, Approval: &asked}}, nil
	}
	cause := perdure.CauseOf(ctx)
	if cause == "" && ctx.Err() != nil {
		cause = perdure.CauseInterrupt
	}
	if out.Approval != nil {
		result = stoppedBeforeStart(cause)
	}
	return d.ready(s, call, startedAt, End{Result: result, Cause: cause}), nil
}

func (d *Inline) ready(s Snapshot, call tool.Call, startedAt time.Time, end End) StartResult {
	v := verdictOf(call.ID, startedAt, end)
	s.State = v.state
	r := newItem(s, v.result)
	if v.err != nil {
		d.cfg.Runner.Log.Error("internal tool error", "task", s.Task, "tool", s.Tool, "call", s.Call,
			"error", tool.Chain(v.err))
	}
	return StartResult{Task: s.Task, Ready: &r}
}

// WaitTurn returns false: there is nothing to wait for.
func (d *Inline) WaitTurn(context.Context, perdure.TurnID) (Update, bool) { return Update{}, false }

// TakePending returns nil: there is no background work.
func (d *Inline) TakePending(perdure.SessionID) []Resolution { return nil }

// InterruptTurn does nothing: a call ends with the context of its Start.
func (d *Inline) InterruptTurn(perdure.TurnID) {}

// Handle returns a handle without tasks.
func (d *Inline) Handle() Handle { return Handle{events: &Subscription{}} }
