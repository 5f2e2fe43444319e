package model

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"

	"github.com/perdure/perdure"
)

// Answer is what came of a stream: a whole answer, or as much as there was before an error.
type Answer struct {
	Message   perdure.Message // of the agent: one part of text if there was any, then the calls in the model's order
	Usage     perdure.Usage   // as the provider said it last; zero: it said nothing
	Finish    Finish          // empty: the answer is not whole
	Model     string          // which model answered; empty: the provider did not say
	Discarded int             // calls that were begun and cannot be accepted (TN7)
}

// Collect folds a stream into an answer. on sees each delta as it comes, before it is folded; nil: nobody does.
//
// The answer is whole exactly when the error is nil. Otherwise it holds what came before, its message is
// marked as interrupted, and the error is the stream's own, or an *Error of code Unavailable where the
// stream ended without a Finish. Nothing after a Finish is read.
//
// A call without a name, or with arguments that are no JSON, is discarded and counted (TN7). Any other
// arguments stay as they came, whether they are an object or not; no arguments at all are {} (TL22).
func Collect(seq iter.Seq2[Delta, error], on func(Delta)) (Answer, error) {
	var c collector
	for d, err := range seq {
		if err != nil {
			return c.answer(true), err
		}
		if on != nil {
			on(d)
		}
		c.add(d)
		if d.Finish != "" {
			return c.answer(false), nil
		}
	}
	return c.answer(true), &Error{Code: Unavailable, Text: "stream ended early"}
}

// collector holds the pieces of an answer.
type collector struct {
	text, thinking strings.Builder
	signature      string
	calls          []perdure.Part
	sofar          Answer // all but the message
}

func (c *collector) add(d Delta) {
	c.text.WriteString(d.Text)
	c.thinking.WriteString(d.Thinking)
	if d.Signature != "" {
		c.signature = d.Signature
	}
	if d.Call != nil {
		c.addCall(*d.Call)
	}
	c.sofar.Discarded += d.Broken
	if d.Usage != nil {
		c.sofar.Usage = *d.Usage
	}
	if d.Model != "" {
		c.sofar.Model = d.Model
	}
	c.sofar.Finish = d.Finish
}

func (c *collector) addCall(call perdure.ToolCall) {
	if len(bytes.TrimSpace(call.Arguments)) == 0 {
		call.Arguments = json.RawMessage("{}")
	}
	if call.Name == "" || !json.Valid(call.Arguments) {
		c.sofar.Discarded++
		return
	}
	c.calls = append(c.calls, perdure.Part{Type: perdure.PartToolCall, Call: &call})
}

func (c *collector) answer(interrupted bool) Answer {
	a := c.sofar
	a.Message = perdure.Message{
		Role: perdure.RoleAgent, Model: a.Model, Thinking: c.thinking.String(), Signature: c.signature, Interrupted: interrupted,
	}
	if c.text.Len() > 0 {
		a.Message.Parts = append(a.Message.Parts, perdure.Part{Type: perdure.PartText, Text: c.text.String()})
	}
	a.Message.Parts = append(a.Message.Parts, c.calls...)
	return a
}
