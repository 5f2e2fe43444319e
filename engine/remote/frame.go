package remote

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// maxFrameBytes bounds one frame. The biggest event is a message with images: 28 MiB as it was sent.
const maxFrameBytes = 64 << 20

// errLongFrame ends a stream: the same frame would come again.
var errLongFrame = fmt.Errorf("the stream has a frame of more than %d bytes", maxFrameBytes)

// frame is one event of a stream (WHATWG HTML, 9.2).
type frame struct {
	event string // its name; empty: none was given
	id    string // of this frame alone
	hasID bool
	data  []byte // lines joined by \n; valid until the next frame is read
}

// frames reads a stream of events. Comments and retry are skipped: how long to wait is our own business.
// It is not safe for concurrent use.
type frames struct {
	in    *bufio.Reader
	most  int
	begun bool   // the first line was read, before which a byte order mark may stand
	fed   bool   // the last line ended with \r, so a \n that follows belongs to it
	line  []byte // reused
	data  []byte // reused
}

// newFrames reads frames of at most so many bytes, field names included.
func newFrames(r io.Reader, most int) *frames {
	return &frames{in: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns the next frame. A frame that the end of the stream cuts off is none: the error is then
// io.EOF, or the reader's.
func (f *frames) next() (frame, error) {
	var got frame
	f.data = f.data[:0]
	size, lines, named := 0, 0, false
	for {
		if err := f.readLine(f.most - size); err != nil {
			return frame{}, err
		}
		begun := lines > 0 || named || got.hasID
		switch {
		case len(f.line) == 0 && begun:
			got.data = f.data
			return got, nil
		case begun:
			size += len(f.line)
		default:
			size = len(f.line) // what comes between frames is not part of one
		}
		name, value, _ := bytes.Cut(f.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			got.event, named = string(value), true
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				got.id, got.hasID = string(value), true
			}
		case "data":
			if lines++; lines > 1 {
				f.data = append(f.data, '\n')
			}
			f.data = append(f.data, value...)
		}
	}
}

// readLine reads a line of at most so many bytes into f.line, without its end, which is \n, \r or \r\n. It
// returns as soon as the end is there, and waits for no byte behind it.
func (f *frames) readLine(most int) error {
	f.line = f.line[:0]
	for {
		if _, err := f.in.Peek(1); err != nil {
			return err
		}
		chunk, _ := f.in.Peek(f.in.Buffered()) // what is there cannot fail
		if f.fed && chunk[0] == '\n' {
			f.drop(1)
			f.fed = false
			continue
		}
		f.fed = false
		end := bytes.IndexAny(chunk, "\r\n")
		take := chunk
		if end >= 0 {
			take = chunk[:end]
		}
		if len(f.line)+len(take) > most {
			return errLongFrame
		}
		f.line = append(f.line, take...)
		if end < 0 {
			f.drop(len(chunk))
			continue
		}
		f.fed = chunk[end] == '\r'
		f.drop(end + 1)
		if !f.begun {
			f.begun, f.line = true, bytes.TrimPrefix(f.line, []byte("\ufeff"))
		}
		return nil
	}
}

// drop lets go of bytes that Peek has shown, which cannot fail.
func (f *frames) drop(n int) { _, _ = f.in.Discard(n) }
