package openai

import (
	"strings"

	"github.com/perdure/perdure"
)

// calls are the calls of an answer while it comes, in the order in which they began.
type calls struct{ begun []*begunCall }

// begunCall is a call of which not all may have come.
type begunCall struct {
	index    *int
	id, name string
	opening  piece // what began it
	pieces   int   // how many came
	args     strings.Builder
	muddled  bool // its pieces contradict one another
}

// add takes a piece to its call. It belongs to the latest call of its index, or begins another: some servers give all
// calls the index 0, or none, and tell them apart by id only.
func (c *calls) add(p piece) {
	open := c.latest(p.Index)
	switch {
	case open == nil:
	case open.replayed(p):
		return
	case !open.endsBefore(p):
		open.extend(p)
		return
	}
	next := &begunCall{index: p.Index, opening: p}
	next.extend(p)
	c.begun = append(c.begun, next)
}

func (c *calls) latest(index *int) *begunCall {
	for i := len(c.begun) - 1; i >= 0; i-- {
		if index == nil || c.begun[i].index == nil || *c.begun[i].index == *index {
			return c.begun[i]
		}
	}
	return nil
}

// replayed reports whether p is what opened the call, come twice in a row. Added again it would leave no valid JSON,
// or change nothing.
func (b *begunCall) replayed(p piece) bool {
	return b.pieces == 1 && p.ID == b.opening.ID && p.Function == b.opening.Function && p.Function.Name != ""
}

// endsBefore reports whether p begins another call: it has another id, or it has no id, but a name, and the arguments
// so far are complete.
func (b *begunCall) endsBefore(p piece) bool {
	if p.ID != "" && b.id != "" {
		return p.ID != b.id
	}
	return p.Function.Name != "" && b.isObject()
}

func (b *begunCall) extend(p piece) {
	if b.id == "" {
		b.id = p.ID
	}
	if b.name == "" {
		b.name = p.Function.Name
	}
	b.muddled = b.muddled || p.Function.Name != "" && p.Function.Name != b.name
	b.args.WriteString(string(p.Function.Arguments))
	b.pieces++
}

// end returns the calls that are complete, and how many are not. In an answer that has ended regularly each call is
// complete whose arguments parse; no arguments are {}. In any other the last call is not, and of those before it the
// ones with a whole object: the next call has begun, so the provider was done with them (TN7).
func (c *calls) end(regular bool) (complete []perdure.ToolCall, broken int) {
	for i, b := range c.begun {
		call, ok := b.call()
		if ok && !regular {
			ok = i < len(c.begun)-1 && b.isObject()
		}
		if ok {
			complete = append(complete, call)
		} else {
			broken++
		}
	}
	return complete, broken
}

func (b *begunCall) call() (perdure.ToolCall, bool) {
	text := joinHalves(b.args.String())
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	_, err := perdure.CanonicalJSON([]byte(text))
	ok := err == nil && !b.muddled && b.name != ""
	return perdure.ToolCall{ID: perdure.CallID(b.id), Name: b.name, Arguments: []byte(text)}, ok
}

// isObject reports whether the arguments are one whole JSON object. A number, say, might still grow.
func (b *begunCall) isObject() bool {
	text := strings.TrimSpace(b.args.String())
	if !strings.HasPrefix(text, "{") {
		return false
	}
	_, err := perdure.CanonicalJSON([]byte(text))
	return err == nil
}
