package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
)

// counted is what every tool here is given and answers.
type counted struct {
	N int `json:"n"`
}

// tools are the tools of a world, and where they report. Its functions are set before the engine runs.
type tools struct {
	called  func(perdure.SessionID) // a no-op call was entered; nil: nobody listens
	entered func(moment)            // a parked run was entered; nil: nobody listens
	left    func(moment)            // the context of a parked run ended; nil: nobody listens
	asked   func(moment)            // a run was asked for; nil: nobody listens
	target  string                  // what spawn starts; empty: park
	args    func(n int) []byte      // of what spawn starts; nil: its number
	parked  atomic.Int64            // runs that were entered, and lingering calls
	release chan struct{}           // lets one lingering call return; nil: they return with their context
	leaving func(moment)            // a lingering call returns; nil: nobody listens
}

// moment is when something happened to the run of a number.
type moment struct {
	n  int
	at time.Time
}

// list makes the tools.
func (t *tools) list() []tool.Tool {
	spec := func(name string, class perdure.EffectClass) tool.Spec {
		return tool.Spec{Name: name, Description: "A tool of the benchmarks.", Class: class, SoftBudget: tool.Never}
	}
	linger := spec("linger", perdure.Idempotent)
	linger.SoftBudget = 0 // the engine's
	return []tool.Tool{
		tool.New(linger, t.linger),
		tool.New(spec("noop", perdure.AtMostOnce), t.noop),
		tool.New(spec("spawn", perdure.Idempotent), t.spawn),
		tool.NewBackground(spec("park", perdure.Idempotent), t.park),
	}
}

// noop does nothing.
func (t *tools) noop(_ context.Context, in counted, env tool.Env) (counted, error) {
	if t.called != nil {
		t.called(env.Call.Session)
	}
	return in, nil
}

// spawn starts a background run, through the same port as spawn_background.
func (t *tools) spawn(ctx context.Context, in counted, env tool.Env) (counted, error) {
	order := tool.Spawn{Tool: "park", Args: numbered(in.N)}
	if t.target != "" {
		order.Tool = t.target
	}
	if t.args != nil {
		order.Args = t.args(in.N)
	}
	if t.asked != nil {
		t.asked(moment{n: in.N, at: time.Now()})
	}
	_, err := env.Tasks.Spawn(ctx, order)
	return in, err
}

// park is a background run that waits for its end.
func (t *tools) park(ctx context.Context, in counted, _ tool.Env) (counted, error) {
	if t.entered != nil {
		t.entered(moment{n: in.N, at: time.Now()})
	}
	t.parked.Add(1)
	<-ctx.Done()
	if t.left != nil {
		t.left(moment{n: in.N, at: time.Now()})
	}
	return in, context.Cause(ctx)
}

// linger is a foreground call that waits until it is released or ended, longer than its soft budget.
func (t *tools) linger(ctx context.Context, in counted, _ tool.Env) (counted, error) {
	t.parked.Add(1)
	select {
	case <-t.release:
	case <-ctx.Done():
		return in, context.Cause(ctx)
	}
	if t.leaving != nil {
		t.leaving(moment{n: in.N, at: time.Now()})
	}
	return in, nil
}

// numbered makes the arguments of a tool that is given its number.
func numbered(n int) []byte { return []byte(`{"n":` + strconv.Itoa(n) + `}`) }

// numberOf reads what numbered wrote; other arguments have no number.
func numberOf(args []byte) (n int, ok bool) {
	found, err := fmt.Sscanf(string(args), `{"n":%d}`, &n)
	return n, found == 1 && err == nil
}

// order is what a person asks of the scripted-in-Go model: so many calls of a tool, so many in a message.
type order struct {
	tool string
	all  int // calls of the turn
	step int // calls of one message
}

// message is the order as it is sent. The zero order asks for an answer and no call.
func (o order) message() perdure.Message {
	if o.all == 0 {
		return perdure.Text("say something")
	}
	return perdure.Text(fmt.Sprintf("call %s %d %d", o.tool, o.all, o.step))
}

// orders is a model that does what the last person said, and answers in a word when that is done. It remembers
// nothing: it reads only the messages since that person spoke. It is in memory and as cheap as a model can be.
type orders struct {
	asked func(perdure.SessionID) // called when it is asked; nil: nobody listens
	done  func(perdure.SessionID) // called with each last answer of a turn; nil: nobody listens
}

var _ model.Model = orders{}

// Stream answers with the next calls, or with a word.
func (m orders) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if m.asked != nil {
			m.asked(req.Session)
		}
		o, made := lastOrder(req.Messages)
		next := min(o.step, o.all-made)
		for i := range next {
			call := &perdure.ToolCall{Name: o.tool, Arguments: numbered(made + i)}
			if !yield(model.Delta{Call: call}, nil) {
				return
			}
		}
		if next > 0 {
			yield(model.Delta{Finish: model.FinishCalls, Model: "orders"}, nil)
			return
		}
		if m.done != nil {
			m.done(req.Session)
		}
		yield(model.Delta{Text: "ok", Finish: model.FinishStop, Model: "orders"}, nil)
	}
}

// lastOrder finds what was asked last, and how many calls were made since.
func lastOrder(messages []perdure.Message) (o order, made int) {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == perdure.RoleUser {
			_, _ = fmt.Sscanf(m.Text(), "call %s %d %d", &o.tool, &o.all, &o.step) // no order is no calls
			return o, made
		}
		if m.Role == perdure.RoleAgent {
			made += len(m.Calls())
		}
	}
	return o, made
}
