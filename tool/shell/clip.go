package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// How much of the start and the end of a stream the model sees. Both streams together stay within
// the limit of a result (TL16), including JSON escapes.
const (
	headBytes = 12 << 10
	tailBytes = 12 << 10
)

// endBytes is how much of the end is kept, so that enough remains to be shown if part of it might
// belong to a secret.
const endBytes = supervise.EndMaxBytes

// clip keeps the start and the end of a stream of any length. The zero value is ready to use.
type clip struct {
	head  []byte
	tail  []byte // bytes after head; at most twice endBytes, of which the last endBytes are used
	total int64
	gap   bool // bytes may be missing between head and tail
}

func (c *clip) write(b []byte) {
	c.total += int64(len(b))
	if !c.gap {
		n := min(headBytes-len(c.head), len(b))
		c.head, b = append(c.head, b[:n]...), b[n:]
	}
	c.tail = append(c.tail, b...)
	if over := len(c.tail) - endBytes; over > endBytes {
		c.tail = c.tail[:copy(c.tail, c.tail[over:])]
	}
}

// skip records that bytes may be missing here, of this stream or of the other.
func (c *clip) skip() { c.gap = true }

// end sets the length of the whole stream and its last bytes.
func (c *clip) end(total int64, end []byte) {
	if c.total == total {
		c.gap = false // the missing bytes belonged to the other stream
		return
	}
	c.total = total
	c.tail = end[max(0, int64(len(end))-(total-int64(len(c.head)))):]
}

// finish adds the rest of a stream: the number of bytes missing after what was written, and the
// last of them.
func (c *clip) finish(missing int64, end []byte) {
	if missing <= int64(len(end)) {
		c.write(end)
		return
	}
	c.total += missing
	c.tail = append([]byte(nil), end...) // what was written before is not part of the end
}

// text returns the kept bytes as valid UTF-8, and whether they are less than the whole. Cuts fall
// between characters, and parts of a secret at a cut are hidden on both sides. secrets is nil if
// there are none.
func (c *clip) text(secrets tool.SecretMasker) (string, bool) {
	head, tail := c.head, c.tail[max(0, len(c.tail)-endBytes):]
	if int64(len(head)+len(tail)) == c.total && c.total <= headBytes+tailBytes {
		return strings.ToValidUTF8(string(head)+string(tail), "\uFFFD"), false
	}
	if secrets != nil {
		before, after := secrets.Stream(), secrets.Stream()
		head = before.Feed(head)
		after.Skip()
		tail = after.Feed(tail)
		tail = append(tail, after.Flush()...)
	}
	head, tail = wholeEnd(head), wholeStart(tail[max(0, len(tail)-tailBytes):])
	gap := fmt.Sprintf("\n[... %d bytes left out ...]\n", max(c.total-int64(len(head)+len(tail)), 0))
	return strings.ToValidUTF8(string(head)+gap+string(tail), "\uFFFD"), true
}

// wholeEnd removes an incomplete character at the end of b.
func wholeEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// wholeStart removes the rest of a character that began before b.
func wholeStart(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
