package openai

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/internal/strictjson"
)

// maxCalls bounds the calls of an answer. No model makes so many at once, and each one needs
// memory.
const maxCalls = 1000

// calls collects the calls of an answer, in the order in which they started. The zero value is
// empty.
type calls struct {
	started   []*partialCall
	byIndex   map[int]*partialCall // the latest call of each index
	unindexed *partialCall         // the latest call without an index
	tooMany   bool                 // the limit was exceeded; no call of this answer is made
}

// partialCall is a call that may still be incomplete.
type partialCall struct {
	position     int // position in calls.begun
	id, name     string
	opening      piece // the piece that started it
	pieces       int   // number of pieces so far
	args         strings.Builder
	object       bracketTracker
	fields       openFields
	inconsistent bool // its pieces contradict each other

	last  string // the last piece of the arguments
	grows bool   // each piece of the arguments repeats the one before and adds to it
}

// add assigns a piece to a call, and reports whether the piece adds anything. It belongs to the
// latest call of its index, or starts another one: some servers give all calls the index 0, or no
// index at all, and distinguish them only by id.
func (c *calls) add(p piece) bool {
	open := c.owner(p)
	if p.ID == "" && p.Function.Name == "" && p.Function.Arguments == "" {
		if open != nil {
			open.fields.add(p.fields)
		}
		return open != nil && len(p.fields) > 0
	}
	switch {
	case open == nil:
	case open.isRepeated(p):
		return false
	case !open.startsNext(p):
		return open.extend(p)
	}
	if len(c.started) == maxCalls {
		c.tooMany = true
		return false
	}
	next := &partialCall{position: len(c.started), opening: p}
	c.started = append(c.started, next)
	if p.Index == nil {
		c.unindexed = next
		return next.extend(p)
	}
	if c.byIndex == nil {
		c.byIndex = map[int]*partialCall{}
	}
	c.byIndex[*p.Index] = next
	return next.extend(p)
}

// owner returns the call that a piece may belong to. A piece that only continues a call belongs to
// the call of its id, whatever its index says. With an index that no call has it belongs to the
// latest call: some servers begin a second call with index 0 and continue it with 1.
func (c *calls) owner(p piece) *partialCall {
	open := c.latest(p.Index)
	switch continues := p.Function.Name == ""; {
	case !continues || len(c.started) == 0:
		return open
	case p.ID != "" && (open == nil || open.id != p.ID):
		for _, b := range slices.Backward(c.started) {
			if b.id == p.ID {
				return b
			}
		}
	case p.ID == "" && open == nil:
		return c.started[len(c.started)-1]
	}
	return open
}

// latest returns the call that a piece with this index may belong to. Without an index that is the
// latest call of all.
func (c *calls) latest(index *int) *partialCall {
	if len(c.started) == 0 {
		return nil
	}
	if index == nil {
		return c.started[len(c.started)-1]
	}
	same := c.byIndex[*index]
	if same == nil || c.unindexed != nil && c.unindexed.position > same.position {
		return c.unindexed
	}
	return same
}

// isRepeated reports whether p repeats the piece that opened the call, directly after it. Adding
// it again would change nothing or make the arguments invalid.
func (b *partialCall) isRepeated(p piece) bool {
	return b.pieces == 1 && p.ID == b.opening.ID && p.Function == b.opening.Function && p.Function.Name != ""
}

// startsNext reports whether p starts another call: it has a different id, or it has a name and no
// id while the arguments so far are complete.
func (b *partialCall) startsNext(p piece) bool {
	if p.ID != "" && b.id != "" {
		return p.ID != b.id
	}
	return p.Function.Name != "" && b.name != "" && b.object.closed
}

// extend adds a piece, and reports whether it added to the id, the name or the arguments.
func (b *partialCall) extend(p piece) bool {
	b.fields.add(p.fields)
	piece := string(p.Function.Arguments)
	if b.object.closed && piece == b.args.String() {
		return false // all arguments again, behind their pieces
	}
	more := piece != "" || len(p.fields) > 0
	if b.id == "" && p.ID != "" {
		b.id, more = p.ID, true
	}
	if p.Function.Name != "" && b.extendName(p) {
		more = true
	}
	if piece != "" {
		b.grows = b.args.Len() == 0 || b.grows && len(piece) > len(b.last) && strings.HasPrefix(piece, b.last)
		b.last = piece
	}
	b.args.WriteString(piece)
	b.object.add(piece)
	b.pieces++
	return more
}

// extendName adds the name of a piece. Some servers send a name in pieces, others the name so far,
// both before the arguments. Any other name contradicts the first one.
func (b *partialCall) extendName(p piece) bool {
	name := p.Function.Name
	switch early := b.args.Len() == 0 && p.Function.Arguments == "" && p.ID == ""; {
	case b.name == "":
		b.name = name
	case name == b.name:
		return false
	case early && strings.HasPrefix(name, b.name):
		b.name = name
	case early:
		b.name += name
	default:
		b.inconsistent = true
	}
	return true
}

// areWhole reports whether all calls have a name and a complete object as arguments.
func (c *calls) areWhole() bool {
	return !slices.ContainsFunc(c.started, func(b *partialCall) bool {
		return b.name == "" || b.inconsistent || !b.object.closed
	})
}

// ending is how an answer ended, for the decision about its calls.
type ending int

const (
	brokenStream ending = iota // the stream broke
	lengthLimit                // complete, but cut off at the length limit
	finished                   // complete
)

// end returns the complete calls, and the number of incomplete ones.
//
// If the answer has finished, all calls are complete. Arguments that do not parse are then the
// model's mistake, and the check of the arguments reports it to the model. In any other case the
// last call is open, and the start of the next call completed each earlier one. If the stream
// broke, pieces may have been lost, so an earlier call must also have a complete object as
// arguments. If the length limit was reached, empty arguments do not count as "no arguments",
// because they may be missing.
func (c *calls) end(how ending) (closed []perdure.ToolCall, broken int) {
	for i, b := range c.started {
		last := i == len(c.started)-1
		call, parses, ok := b.call()
		switch {
		case how == finished:
		case last:
			ok = false
		case how == brokenStream:
			ok = ok && parses && b.object.closed
		default:
			ok = ok && strings.TrimSpace(b.args.String()) != ""
		}
		if ok {
			closed = append(closed, call)
		} else {
			broken++
		}
	}
	return closed, broken
}

// call returns the call so far, and whether its arguments parse. ok is false if it cannot be said
// what was called.
func (b *partialCall) call() (call perdure.ToolCall, parses, ok bool) {
	raw := joinHalves(b.args.String())
	if strings.TrimSpace(raw) == "" {
		raw = "{}"
	}
	text := escapeBroken(raw)
	_, err := strictjson.Canonical([]byte(text))
	if err != nil {
		if object := b.onlyObject(raw); object != "" {
			raw, text, err = object, object, nil
		}
	}
	// A replacement must not turn broken text into valid arguments.
	ok = !b.inconsistent && b.name != "" && (err != nil || text == raw)
	call = perdure.ToolCall{ID: perdure.CallID(b.id), Name: b.name, Arguments: []byte(text), ProviderFields: b.fields.values()}
	return call, err == nil, ok
}

// onlyObject returns the one object that arguments hold which do not parse as a whole; empty:
// there is none, or more than one. Servers send {} as a placeholder in front, the whole arguments
// a second time, or in each piece the arguments so far.
func (b *partialCall) onlyObject(raw string) string {
	if b.grows && b.pieces > 1 && isObject(b.last) {
		return b.last
	}
	values, err := sse.Split([]byte(raw))
	if err != nil || len(values) < 2 {
		return ""
	}
	only := ""
	for _, value := range values {
		switch text := string(value); {
		case !isObject(text):
			return ""
		case only == "" || only == "{}":
			only = text
		case text != "{}" && text != only:
			return ""
		}
	}
	return only
}

// isObject reports whether text is an object that every reader reads alike.
func isObject(text string) bool {
	_, err := strictjson.Canonical([]byte(text))
	return err == nil && strings.HasPrefix(strings.TrimSpace(text), "{")
}

// escapeBroken returns arguments as valid UTF-8. Bytes that belong to no character become escapes:
// half of a surrogate pair becomes \ud83d, which is how it arrived, and any other byte \xff, which
// is not JSON. Neither parses.
func escapeBroken(raw string) string {
	if utf8.ValidString(raw) {
		return raw
	}
	var out strings.Builder
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRuneInString(raw[i:])
		switch {
		case isHalf(raw[i:], 0xA0), isHalf(raw[i:], 0xB0):
			fmt.Fprintf(&out, `\u%04x`, half(raw[i:]))
			size = 3
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, raw[i])
		default:
			out.WriteString(raw[i : i+size])
		}
		i += size
	}
	return out.String()
}

// bracketTracker tracks the brackets of a JSON text that arrives in pieces, so that it need not be
// parsed again with each piece.
type bracketTracker struct {
	depth                        int
	inString, escaped, notObject bool // inside a string; after a backslash in it; not an object
	closed                       bool // a complete object, judging by its brackets
}

func (b *bracketTracker) add(piece string) {
	for i := 0; i < len(piece) && !b.notObject; i++ {
		b.next(piece[i])
	}
}

func (b *bracketTracker) next(c byte) {
	switch {
	case b.escaped:
		b.escaped = false
	case b.inString:
		b.escaped, b.inString = c == '\\', c != '"'
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
	case b.closed, b.depth == 0 && c != '{':
		b.notObject, b.closed = true, false
	case c == '"':
		b.inString = true
	case c == '{' || c == '[':
		b.depth++
	case c == '}' || c == ']':
		b.depth--
		b.closed = b.depth == 0
	}
}
