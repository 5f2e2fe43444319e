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

// counted is the input and output of every tool here.
type counted struct {
	N int `json:"n"`
}

// tools are the tools of a world, and their callbacks. Its fields are set before the engine runs.
type tools struct {
	called  func(perdure.SessionID) // a no-op call was entered; may be nil
	entered func(moment)            // a parked run was entered; may be nil
	left    func(moment)            // the context of a parked run ended; may be nil
	asked   func(moment)            // a run was requested; may be nil
	target  string                  // the tool that spawn starts; empty: park
	args    func(n int) []byte      // its arguments; nil: its number
	parked  atomic.Int64            // runs that were entered, and lingering calls
	release chan struct{}           // lets one lingering call return; nil: they return with their context
	leaving func(moment)            // a lingering call returns; may be nil
}

// moment is the time of an event of a numbered run.
type moment struct {
	n  int
	at time.Time
}

// list returns the tools.
func (t *tools) list() []tool.Tool {
	spec := func(name string, class perdure.EffectClass) tool.Spec {
		return tool.Spec{Name: name, Description: "A tool of the benchmarks.", Class: class, SoftBudget: tool.Never}
	}
	linger := spec("linger", perdure.Idempotent)
	linger.SoftBudget = 0 // the default of the engine
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
	order := tool.SpawnRequest{Tool: "park", Args: numbered(in.N)}
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

// linger is a foreground call that waits until it is released or ended, longer than its soft
// budget.
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

// numbered returns arguments with a number.
func numbered(n int) []byte { return []byte(`{"n":` + strconv.Itoa(n) + `}`) }

// numberOf reads what numbered wrote; other arguments have no number.
func numberOf(args []byte) (n int, ok bool) {
	found, err := fmt.Sscanf(string(args), `{"n":%d}`, &n)
	return n, found == 1 && err == nil
}

// order is a request to the model: so many calls of a tool, so many per message.
type order struct {
	tool string
	all  int // calls of the turn
	step int // calls of one message
}

// message returns the order as a message. The zero order requests an answer without calls.
func (o order) message() perdure.Message {
	if o.all == 0 {
		return perdure.Text("say something")
	}
	return perdure.Text(fmt.Sprintf("call %s %d %d", o.tool, o.all, o.step))
}

// orderModel is a model that executes the last order and then answers. It has no state: it reads
// only the messages since the order. It runs in memory and is as cheap as a model can be.
type orderModel struct {
	asked func(perdure.SessionID) // called with each request; may be nil
	done  func(perdure.SessionID) // called with the last answer of each turn; may be nil
}

var _ model.Model = orderModel{}

// Stream answers with the next calls, or with a text.
func (m orderModel) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
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

// lastOrder returns the last order, and the number of calls since.
func lastOrder(messages []perdure.Message) (o order, made int) {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == perdure.RoleUser {
			// without an order there are no calls
			_, _ = fmt.Sscanf(m.Text(), "call %s %d %d", &o.tool, &o.all, &o.step)
			return o, made
		}
		if m.Role == perdure.RoleAgent {
			made += len(m.Calls())
		}
	}
	return o, made
}
