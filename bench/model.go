package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

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
