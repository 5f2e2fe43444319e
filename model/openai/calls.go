package openai

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// maxCalls is how many calls an answer may begin. No model makes so many at once, and each costs memory.
const maxCalls = 1000

// calls are the calls of an answer while it comes, in the order in which they began. The zero value holds none.
type calls struct {
	begun     []*begunCall
	byIndex   map[int]*begunCall // the latest of each index
	unindexed *begunCall         // the latest without one
	tooMany   bool               // one more would have begun; nothing of this answer is to be done
}

// begunCall is a call of which not all may have come.
type begunCall struct {
	place    int // in the order of calls
	id, name string
	opening  piece // what began it
	pieces   int   // how many came
	args     strings.Builder
	object   brackets
	muddled  bool // its pieces contradict one another
}

// add takes a piece to its call, and reports whether it says anything new. It belongs to the latest call of its index,
// or begins another: some servers give all calls the index 0, or none, and tell them apart by id only.
func (c *calls) add(p piece) bool {
	if p.ID == "" && p.Function.Name == "" && p.Function.Arguments == "" {
		return false
	}
	open := c.latest(p.Index)
	switch {
	case open == nil:
	case open.replayed(p):
		return false
	case !open.endsBefore(p):
		return open.extend(p)
	}
	if len(c.begun) == maxCalls {
		c.tooMany = true
		return false
	}
	next := &begunCall{place: len(c.begun), opening: p}
	c.begun = append(c.begun, next)
	if p.Index == nil {
		c.unindexed = next
		return next.extend(p)
	}
	if c.byIndex == nil {
		c.byIndex = map[int]*begunCall{}
	}
	c.byIndex[*p.Index] = next
	return next.extend(p)
}

// latest returns the call to which a piece of this index may belong: one without an index belongs to any.
func (c *calls) latest(index *int) *begunCall {
	if len(c.begun) == 0 {
		return nil
	}
	if index == nil {
		return c.begun[len(c.begun)-1]
	}
	same := c.byIndex[*index]
	if same == nil || c.unindexed != nil && c.unindexed.place > same.place {
		return c.unindexed
	}
	return same
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
	return p.Function.Name != "" && b.object.closed
}

// extend adds a piece, and reports whether the call has more of an id, a name or arguments now.
func (b *begunCall) extend(p piece) bool {
	more := p.Function.Arguments != ""
	if b.id == "" && p.ID != "" {
		b.id, more = p.ID, true
	}
	if b.name == "" && p.Function.Name != "" {
		b.name, more = p.Function.Name, true
	}
	b.muddled = b.muddled || p.Function.Name != "" && p.Function.Name != b.name
	b.args.WriteString(string(p.Function.Arguments))
	b.object.add(string(p.Function.Arguments))
	b.pieces++
	return more
}

// ending is how an answer ended, as far as its calls go.
type ending int

const (
	torn     ending = iota // the stream broke
	short                  // whole, but at the limit of its length
	finished               // whole
)

// end returns the calls that the provider closed, and how many it did not (TN7). Each call of an answer that has
// finished is closed, also where its arguments do not parse: whoever checks them tells the model so (TL22). In any
// other the last call is open. The one before was closed by the next that began; of a broken stream, where pieces may
// have been lost, it has to be a whole object, and nowhere is it known that no arguments were meant to be none.
func (c *calls) end(how ending) (closed []perdure.ToolCall, broken int) {
	for i, b := range c.begun {
		last := i == len(c.begun)-1
		call, parses, ok := b.call()
		switch {
		case how == finished:
		case last:
			ok = false
		case how == torn:
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

// call returns the call as it stands and whether its arguments parse; not ok: nobody can say what was called.
func (b *begunCall) call() (call perdure.ToolCall, parses, ok bool) {
	raw := joinHalves(b.args.String())
	if strings.TrimSpace(raw) == "" {
		raw = "{}"
	}
	text := shown(raw)
	_, err := perdure.CanonicalJSON([]byte(text))
	ok = !b.muddled && b.name != "" && (err != nil || text == raw) // what was no text must not become good by being shown
	return perdure.ToolCall{ID: perdure.CallID(b.id), Name: b.name, Arguments: []byte(text)}, err == nil, ok
}

// shown returns arguments as valid UTF-8, in which bytes that belong to no character stand as escapes: half of a pair
// as \ud83d, which is how it came, and any other byte as \xff, which JSON does not know. Neither parses.
func shown(raw string) string {
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

// brackets follows the brackets of a JSON text that comes in pieces, so that nobody has to parse it again with each.
type brackets struct {
	depth                  int
	text, escaped, spoiled bool // in a string; behind a backslash of one; this is no object
	closed                 bool // it is one whole object, as far as brackets tell
}

func (b *brackets) add(piece string) {
	for i := 0; i < len(piece) && !b.spoiled; i++ {
		b.next(piece[i])
	}
}

func (b *brackets) next(c byte) {
	switch {
	case b.escaped:
		b.escaped = false
	case b.text:
		b.escaped, b.text = c == '\\', c != '"'
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
	case b.closed, b.depth == 0 && c != '{':
		b.spoiled, b.closed = true, false
	case c == '"':
		b.text = true
	case c == '{' || c == '[':
		b.depth++
	case c == '}' || c == ']':
		b.depth--
		b.closed = b.depth == 0
	}
}
