package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// What the model sees of a stream: its beginning and its end. Both streams together stay under the limit of
// a result (TL16), with room for what JSON escapes.
const (
	headBytes = 12 << 10
	tailBytes = 12 << 10
)

// endBytes is how much of the end is held, so that there is something to show behind what may be the end of a secret.
const endBytes = supervise.EndMaxBytes

// clip keeps the beginning and the end of a stream, however long it is. The zero value is ready.
type clip struct {
	head  []byte
	tail  []byte // of what is behind head; at most twice endBytes, the last endBytes of it count
	total int64
	torn  bool // something is missing between head and tail
}

func (c *clip) write(b []byte) {
	c.total += int64(len(b))
	if !c.torn {
		n := min(headBytes-len(c.head), len(b))
		c.head, b = append(c.head, b[:n]...), b[n:]
	}
	c.tail = append(c.tail, b...)
	if over := len(c.tail) - endBytes; over > endBytes {
		c.tail = c.tail[:copy(c.tail, c.tail[over:])]
	}
}

// skip says that something may be missing here, of this stream or of the other.
func (c *clip) skip() { c.torn = true }

// end takes the length of the whole stream and what it ends with.
func (c *clip) end(total int64, end []byte) {
	if c.total == total {
		c.torn = false // what was missing was of the other stream
		return
	}
	c.total = total
	c.tail = end[max(0, int64(len(end))-(total-int64(len(c.head)))):]
}

// finish takes the end of a stream that went on after what was written here: so many bytes, the last of which are known.
func (c *clip) finish(missing int64, end []byte) {
	if missing <= int64(len(end)) {
		c.write(end)
		return
	}
	c.total += missing
	c.tail = append([]byte(nil), end...) // what was written last is not of the end
}

// text returns what is kept, as valid UTF-8, and whether that is less than all. A cut falls between two
// characters, and a secret that it falls into is not shown on either side; secrets is nil where none are known.
func (c *clip) text(secrets tool.Known) (string, bool) {
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

// wholeEnd drops a character that begins at the end of b and does not end there.
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

// wholeStart drops the end of a character that began before b.
func wholeStart(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
