package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// maxAnswerBytes bounds what an answer says: its text, its thinking and the arguments of its calls. The message is kept
// and sent again with every later question, so more than this is of no use to anybody.
const maxAnswerBytes = 8 << 20

// Answer is what came of a stream: a whole answer, or as much as there was before an error.
type Answer struct {
	Message   perdure.Message // of the agent: one part of text if there was any, then the calls in the model's order
	Usage     perdure.Usage   // as the provider said it last; zero: it said nothing
	Finish    Finish          // empty: the answer is not whole
	Model     string          // which model answered; empty: the provider did not say
	Discarded int             // calls that were begun and cannot be accepted (TN7)
}

// After is the answer with the text that it goes on from before its own (TN20).
func (a Answer) After(prefix string) Answer {
	if prefix == "" {
		return a
	}
	parts := slices.Clone(a.Message.Parts)
	if len(parts) > 0 && parts[0].Type == perdure.PartText {
		parts[0].Text = prefix + parts[0].Text
	} else {
		parts = slices.Insert(parts, 0, perdure.Part{Type: perdure.PartText, Text: prefix})
	}
	a.Message.Parts = parts
	return a
}

// Collect folds a stream into an answer. on sees each delta as it comes, before it is folded; nil: nobody does.
//
// The answer is whole exactly when the error is nil. Otherwise it holds what came before, its message is
// marked as interrupted, and the error is the stream's own, or an *Error of code Unavailable where the
// stream ended without a Finish, or of code Processing where an answer says more than 8 MiB; the delta that goes
// beyond is neither kept nor seen. Nothing after a Finish or after that is read.
//
// A call without a name is discarded and counted (TN7). Arguments stay as they came, whether they are an object
// or not; no arguments at all are {}. Those that are no JSON become a JSON string of what came, which whoever
// checks them refuses with what is wrong in it (TL22).
func Collect(seq iter.Seq2[Delta, error], on func(Delta)) (Answer, error) {
	var c collector
	for d, err := range seq {
		if err != nil {
			return c.answer(true), err
		}
		if c.bytes += sizeOf(d); c.bytes > maxAnswerBytes {
			return c.answer(true), &Error{Code: Processing, Text: fmt.Sprintf("the answer says more than %d MiB", maxAnswerBytes>>20)}
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
	bytes          int    // that the deltas so far say
}

// sizeOf is how many bytes a delta says.
func sizeOf(d Delta) int {
	size := len(d.Text) + len(d.Thinking) + len(d.Signature)
	if d.Call != nil {
		size += len(d.Call.ID) + len(d.Call.Name) + len(d.Call.Arguments)
	}
	return size
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
	if call.Name == "" {
		c.sofar.Discarded++
		return
	}
	if !json.Valid(call.Arguments) {
		call.Arguments, _ = json.Marshal(string(call.Arguments)) // a string always encodes
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
