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

// maxAnswerBytes bounds an answer: its text, its thinking, the arguments of its calls, and the
// state of its provider. The message is stored and sent again with every later request, so a
// larger one is not usable.
const maxAnswerBytes = 8 << 20

// Answer is the result of a stream: a complete answer, or what arrived before an error.
type Answer struct {
	Message   perdure.Message // role agent: one text part if there was text, then the calls in the model's order
	Usage     perdure.Usage   // the last report of the provider; zero: none
	Finish    Finish          // empty: the answer is incomplete
	Model     string          // the model that answered; empty: not reported
	Discarded int             // calls that started and cannot be accepted
}

// WithPrefix returns the answer with the prefix that it continues in front of its text.
func (a Answer) WithPrefix(prefix string) Answer {
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

// Collect folds a stream into an answer. It calls on with each delta before the delta is folded; on
// may be nil.
//
// The answer is complete exactly if the error is nil. Otherwise it contains what arrived before,
// and its message is marked as interrupted. The error is that of the stream, or an *Error: of code
// Unavailable if the stream ended without a Finish, and of code Processing if the answer exceeds 8
// MiB. The delta that exceeds the limit is neither passed to on nor folded. Collect stops reading
// after a Finish or an error.
//
// A call without a name is discarded and counted. Arguments are kept as they arrived; empty
// arguments become {}. Arguments that are not valid JSON become a JSON string with their text, so
// that the check of the arguments can report what is wrong with them.
func Collect(seq iter.Seq2[Delta, error], on func(Delta)) (Answer, error) {
	var c collector
	for d, err := range seq {
		if err != nil {
			return c.answer(true), err
		}
		if c.bytes += sizeOf(d); c.bytes > maxAnswerBytes {
			return c.answer(true), &Error{Code: Processing,
				Text: fmt.Sprintf("the answer exceeds %d MiB", maxAnswerBytes>>20)}
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
	state          *perdure.ProviderState
	calls          []perdure.Part
	partial        Answer // everything but the message
	bytes          int    // size of the deltas so far
}

// sizeOf returns the size of a delta's content in bytes.
func sizeOf(d Delta) int {
	size := len(d.Text) + len(d.Thinking) + len(d.Signature)
	if d.Call != nil {
		size += len(d.Call.ID) + len(d.Call.Name) + len(d.Call.Arguments) + sizeOfFields(d.Call.ProviderFields)
	}
	if d.State != nil {
		size += sizeOfFields(d.State.Fields)
	}
	return size
}

func sizeOfFields(fields map[string]json.RawMessage) (size int) {
	for name, value := range fields {
		size += len(name) + len(value)
	}
	return size
}

func (c *collector) add(d Delta) {
	c.text.WriteString(d.Text)
	c.thinking.WriteString(d.Thinking)
	if d.Signature != "" {
		c.signature = d.Signature
	}
	if d.State != nil {
		c.state = d.State
	}
	if d.Call != nil {
		c.addCall(*d.Call)
	}
	c.partial.Discarded += d.DiscardedCalls
	if d.Usage != nil {
		c.partial.Usage = *d.Usage
	}
	if d.Model != "" {
		c.partial.Model = d.Model
	}
	c.partial.Finish = d.Finish
}

func (c *collector) addCall(call perdure.ToolCall) {
	if len(bytes.TrimSpace(call.Arguments)) == 0 {
		call.Arguments = json.RawMessage("{}")
	}
	if call.Name == "" {
		c.partial.Discarded++
		return
	}
	if !json.Valid(call.Arguments) {
		call.Arguments, _ = json.Marshal(string(call.Arguments)) // a string always encodes
	}
	c.calls = append(c.calls, perdure.Part{Type: perdure.PartToolCall, Call: &call})
}

func (c *collector) answer(interrupted bool) Answer {
	a := c.partial
	a.Message = perdure.Message{
		Role: perdure.RoleAgent, Model: a.Model, Thinking: c.thinking.String(), Signature: c.signature, State: c.state,
		Interrupted: interrupted,
	}
	if c.text.Len() > 0 {
		a.Message.Parts = append(a.Message.Parts, perdure.Part{Type: perdure.PartText, Text: c.text.String()})
	}
	a.Message.Parts = append(a.Message.Parts, c.calls...)
	return a
}
