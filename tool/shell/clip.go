package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What the model sees of a stream: its beginning and its end. Both streams together stay under the limit of
// a result (TL16), with room for what JSON escapes.
const (
	headBytes = 12 << 10
	tailBytes = 12 << 10
)

// clip keeps the beginning and the end of a stream, however long it is. The zero value is ready.
type clip struct {
	head  []byte
	tail  []byte // at most twice tailBytes; the last tailBytes of it count
	total int64
}

func (c *clip) write(b []byte) {
	c.total += int64(len(b))
	n := min(headBytes-len(c.head), len(b))
	c.head = append(c.head, b[:n]...)
	c.tail = append(c.tail, b[n:]...)
	if over := len(c.tail) - tailBytes; over > tailBytes {
		c.tail = c.tail[:copy(c.tail, c.tail[over:])]
	}
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
// characters.
func (c *clip) text() (string, bool) {
	head, tail := c.head, c.tail[max(0, len(c.tail)-tailBytes):]
	if int64(len(head)+len(tail)) == c.total {
		return strings.ToValidUTF8(string(head)+string(tail), "\uFFFD"), false
	}
	head, tail = wholeEnd(head), wholeStart(tail)
	gap := fmt.Sprintf("\n[... %d bytes left out ...]\n", c.total-int64(len(head)+len(tail)))
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
