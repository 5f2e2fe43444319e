// Package sse reads streams of server-sent events (WHATWG HTML, 9.2). It imports nothing of ours.
//
// The one thing to know: an event that the end of its stream cuts off is never returned, unless
// [Reader.IsWhole] says that its data is complete.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is the error for an event with more bytes than the reader allows.
var ErrTooLong = errors.New("an event of the stream is too long")

// Event is one event of a stream.
type Event struct {
	Name  string // empty: none
	ID    string // of this event only
	HasID bool
	Data  []byte // lines joined by \n; valid until the next event is read
}

// Reader reads a stream of events. It skips comments, and retry, because the client chooses its
// own delays. It is not safe for concurrent use.
type Reader struct {
	// Idle makes Next also return each empty line and comment between events, as an event without
	// data, so that the caller sees that the other side is alive.
	Idle bool
	// IsWhole reports whether the first data line of an event is all of its data. The event is then
	// returned with that line, even if no empty line follows. nil: an event ends with an empty
	// line.
	IsWhole func(data []byte) bool

	in       *bufio.Reader
	maxBytes int
	begun    bool   // the first line was read; a byte order mark may precede it
	afterCR  bool   // the last line ended with \r, so that a following \n belongs to it
	whole    bool   // the last event was returned before its empty line
	line     []byte // reused
	data     []byte // reused
}

// NewReader returns a reader for events of at most maxBytes bytes, including field names.
func NewReader(r io.Reader, maxBytes int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), maxBytes: maxBytes}
}

// Next returns the next event. At the end of the stream, even within an event, it returns io.EOF
// or the error of the underlying reader.
func (f *Reader) Next() (Event, error) {
	var got Event
	f.data = f.data[:0]
	size, lines, named := 0, 0, false
	for {
		ended := f.readLine(f.maxBytes - size)
		if ended != nil && (errors.Is(ended, ErrTooLong) || !f.isWholeLine(lines)) {
			return Event{}, ended
		}
		begun := lines > 0 || named || got.HasID
		switch {
		case len(f.line) == 0 && begun:
			got.Data = f.data
			return got, nil
		case f.whole && len(f.line) == 0:
			f.whole = false
		case f.Idle && !begun && (len(f.line) == 0 || f.line[0] == ':'):
			return Event{}, nil
		case begun:
			f.whole = false
			size += len(f.line)
		default:
			size = len(f.line) // empty lines and comments between events do not count
		}
		name, value, _ := bytes.Cut(f.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			got.Name, named = string(value), true
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				got.ID, got.HasID = string(value), true
			}
		case "data":
			if lines++; lines > 1 {
				f.data = append(f.data, '\n')
			}
			f.data = append(f.data, value...)
			if lines == 1 && f.IsWhole != nil && f.IsWhole(f.data) {
				got.Data, f.whole = f.data, true
				return got, nil
			}
		}
	}
}

// isWholeLine reports whether the line that the end of the stream cuts off is the whole data of an
// event.
func (f *Reader) isWholeLine(lines int) bool {
	name, value, _ := bytes.Cut(f.line, []byte(":"))
	return lines == 0 && f.IsWhole != nil && string(name) == "data" && f.IsWhole(bytes.TrimPrefix(value, []byte(" ")))
}

// readLine reads a line of at most most bytes into f.line, without its end (\n, \r or \r\n). It
// returns as soon as it sees the end, and does not wait for the byte after it.
func (f *Reader) readLine(most int) error {
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
			return ErrTooLong
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
func (f *Reader) drop(n int) { _, _ = f.in.Discard(n) }
