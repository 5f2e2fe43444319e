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

// Inline runs each call in the goroutine of its caller: the simplest loop, without lanes. The deadline applies; routes, caps, soft
// budgets, stall timeouts and the journal do not. It remembers the questions that it put and that nobody has answered yet.
type Inline struct {
	cfg LoopConfig

	mu    sync.Mutex
	open  map[perdure.TaskID]Asked // guarded by mu
	asked []perdure.TaskID         // guarded by mu; those of open, the oldest first
}

// NewInline returns a dispatcher that runs calls where they are started. Invalid: cfg cannot be used.
func NewInline(cfg LoopConfig) (*Inline, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	if cfg.Runner.Log == nil {
		cfg.Runner.Log = slog.New(slog.DiscardHandler)
	}
	return &Inline{cfg: cfg, open: map[perdure.TaskID]Asked{}}, nil
}

// put remembers an open question, and forgets the oldest of too many.
func (d *Inline) put(q Asked) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, again := d.open[q.Task]; !again {
		d.asked = append(d.asked, q.Task)
	}
	d.open[q.Task] = q
	for len(d.asked) > d.cfg.Keep {
		delete(d.open, d.asked[0])
		d.asked = d.asked[1:]
	}
}

// take closes the question that a launch answers, so that one answer to it counts. False: it is not open here.
func (d *Inline) take(l Launch) (q Asked, open bool) {
	if l.Approval == nil {
		return q, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q, open = d.open[l.Task]
	delete(d.open, l.Task)
	d.asked = slices.DeleteFunc(d.asked, func(id perdure.TaskID) bool { return id == l.Task })
	return q, open
}

// answered says what the answer that a launch may hold comes to: the result of a call that may not run, or nil. After an error
// the question is as open as before.
func (d *Inline) answered(ctx context.Context, l *Launch) (refusal *tool.Result, err error) {
	q, open := d.take(*l)
	defer func() {
		if err != nil && open {
			d.put(q)
		}
	}()
	if open && l.Call.Tool == "" {
		l.Call = q.Call
	}
	if err := checkCall(l.Call); err != nil {
		return nil, err
	}
	patched, err := patch(*l)
	if err == nil {
		err = d.cfg.known(*l, open)
	}
	if err != nil || l.Approval == nil {
		return nil, err
	}
	if !open {
		q = Asked{Task: l.Task, Call: l.Call}
	}
	if refusal := refused(*l, q, time.Now()); refusal != nil {
		return refusal, nil
	}
	if patched != nil {
		l.Call.Args = patched
	}
	return nil, d.cfg.use(ctx, *l)
}

// Start runs the call and returns how it ended, or the question that a person is to be asked.
func (d *Inline) Start(ctx context.Context, l Launch) (StartOutcome, error) {
	refusal, err := d.answered(ctx, &l)
	if err != nil {
		return StartOutcome{}, err
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
		if out.Args != nil {
			call.Args = out.Args
		}
		asked := Asked{Task: task, Call: call, Approval: bound(*out.Approval, s, call)}
		d.put(asked)
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
