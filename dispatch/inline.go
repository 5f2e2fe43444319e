package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

var _ Dispatcher = (*Inline)(nil)

// Inline runs each call in the goroutine of its caller: the simplest loop, without lanes. The deadline applies; routes,
// soft budgets and the journal do not.
type Inline struct{ cfg LoopConfig }

// NewInline returns a dispatcher that runs calls where they are started. Invalid: cfg cannot be used.
func NewInline(cfg LoopConfig) (*Inline, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	if cfg.Runner.Log == nil {
		cfg.Runner.Log = slog.New(slog.DiscardHandler)
	}
	return &Inline{cfg: cfg}, nil
}

// Start runs the call and returns how it ended.
func (d *Inline) Start(ctx context.Context, l Launch) (StartOutcome, error) {
	if err := checkCall(l.Call); err != nil {
		return StartOutcome{}, err
	}
	task := l.Task
	if task == "" {
		task = d.cfg.NewID()
	}
	s := Snapshot{Task: task, Session: l.Call.Session, Turn: l.Call.Turn, Call: l.Call.ID, Tool: l.Call.Tool, Lane: perdure.Foreground, Metadata: l.Metadata}
	if result := denied(l.Approval, Asked{Task: task, Call: l.Call}); result != nil {
		return d.ready(s, l.Call, time.Now(), End{Result: *result}), nil
	}
	spec := d.cfg.Spec(l.Call.Tool)
	call := filled(l.Call, spec)
	begun := time.Now()
	call.Deadline = begun.Add(d.cfg.deadlineOf(call, spec))
	ctx, cancel := context.WithDeadlineCause(ctx, call.Deadline, perdure.CauseDeadline)
	defer cancel()

	var out Outcome
	result := protect(d.cfg.Runner.Log, func() tool.Result {
		out = d.cfg.Execute(ctx, call, l.Approval)
		return out.Result
	}, "task", task, "session", s.Session)
	if out.Approval != nil && ctx.Err() == nil {
		asked := Asked{Task: task, Call: call, Approval: bound(*out.Approval, s, call)}
		return StartOutcome{Task: task, Ready: &Resolution{Task: task, Asked: &asked}}, nil
	}
	cause := perdure.CauseOf(ctx)
	if cause == "" && ctx.Err() != nil {
		cause = perdure.CauseInterrupt
	}
	if out.Approval != nil {
		result = notEntered(cause)
	}
	return d.ready(s, call, begun, End{Result: result, Cause: cause}), nil
}

func (d *Inline) ready(s Snapshot, call tool.Call, begun time.Time, end End) StartOutcome {
	v := judge(call.ID, begun, end)
	s.State = v.state
	r := newItem(s, v.result)
	if v.err != nil {
		d.cfg.Runner.Log.Error("a tool failed internally", "task", s.Task, "tool", s.Tool, "call", s.Call, "error", tool.Chain(v.err))
	}
	return StartOutcome{Task: s.Task, Ready: &r}
}

// WaitTurn has nothing to wait for.
func (d *Inline) WaitTurn(context.Context, perdure.TurnID) (Update, bool) { return Update{}, false }

// TakePending has nothing to give.
func (d *Inline) TakePending(perdure.SessionID) []Resolution { return nil }

// InterruptTurn does nothing: a call ends with the context of its Start.
func (d *Inline) InterruptTurn(perdure.TurnID) {}

// Handle returns one that knows of no task.
func (d *Inline) Handle() Handle { return Handle{events: &Subscription{}} }
