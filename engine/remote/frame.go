package remote

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// maxFrameBytes limits one frame. The largest event is a message with images, 28 MiB as it was
// sent.
const maxFrameBytes = 64 << 20

// errLongFrame ends a stream. It is not retried, because the same frame would arrive again.
var errLongFrame = fmt.Errorf("the stream has a frame of more than %d bytes", maxFrameBytes)

// frame is one event of a stream (WHATWG HTML, 9.2).
type frame struct {
	event string // the name; empty: none
	id    string // of this frame only
	hasID bool
	data  []byte // lines joined by \n; valid until the next frame is read
}

// frameReader reads a stream of events. It skips comments, and retry, because the client chooses
// its own delays. It is not safe for concurrent use.
type frameReader struct {
	in       *bufio.Reader
	maxBytes int
	begun    bool   // the first line was read; a byte order mark may precede it
	afterCR  bool   // the last line ended with \r, so that a following \n belongs to it
	line     []byte // reused
	data     []byte // reused
}

// newFrameReader returns a reader for frames of at most most bytes, including field names.
func newFrameReader(r io.Reader, most int) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(r, 64<<10), maxBytes: most}
}

// next returns the next frame. If the stream ends within a frame, next returns io.EOF or the
// reader's error.
func (f *frameReader) next() (frame, error) {
	var got frame
	f.data = f.data[:0]
	size, lines, named := 0, 0, false
	for {
		if err := f.readLine(f.maxBytes - size); err != nil {
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
			size = len(f.line) // empty lines and comments between frames do not count
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

// readLine reads a line of at most most bytes into f.line, without its end (\n, \r or \r\n). It
// returns as soon as it sees the end, and does not wait for the byte after it.
func (f *frameReader) readLine(most int) error {
	f.line = f.line[:0]
	for {
		if _, err := f.in.Peek(1); err != nil {
			return err
		}
		chunk, _ := f.in.Peek(f.in.Buffered()) // buffered bytes cannot fail
		if f.afterCR && chunk[0] == '\n' {
			f.drop(1)
			f.afterCR = false
			continue
		}
		f.afterCR = false
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
		f.afterCR = chunk[end] == '\r'
		f.drop(end + 1)
		if !f.begun {
			f.begun, f.line = true, bytes.TrimPrefix(f.line, []byte("\ufeff"))
		}
		return nil
	}
}

// drop discards bytes that Peek has returned, which cannot fail.
func (f *frameReader) drop(n int) { _, _ = f.in.Discard(n) }
