package sse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// The errors of Values.
var (
	// ErrForeign is the error for a body that is neither a stream of events nor JSON, such as a
	// page.
	ErrForeign = errors.New("the answer is neither a stream of events nor JSON")
	// ErrBroken is the error for JSON that is cut off, or that is not JSON from some byte on.
	ErrBroken = errors.New("the JSON of the answer is broken")
)

// maxHeadBytes is how much of a body is kept for errors.
const maxHeadBytes = 4 << 10

// DoneMark is the data that ends a stream in the protocols of language models.
const DoneMark = "[DONE]"

// Value is one step of Values.
type Value struct {
	Name string // of the event; empty: none
	Data []byte // of the event, or a JSON value; empty: a sign of life, and nothing else
}

// Values reads the JSON values of an answer in the form that its bytes have, whatever its content
// type says: events, events whose empty lines are missing, JSON values one after the other, or one
// value. It is not safe for concurrent use.
type Values struct {
	body     headReader
	in       *bufio.Reader
	kind     string // media type, for a body whose first bytes do not decide
	maxBytes int

	events *Reader       // the body is a stream of events
	values *json.Decoder // the body is JSON
	done   bool          // DoneMark was read in JSON
}

// NewValues returns a reader for a body of this media type. An event has at most maxBytes bytes.
func NewValues(r io.Reader, kind string, maxBytes int) *Values {
	v := &Values{body: headReader{in: r}, kind: kind, maxBytes: maxBytes}
	v.in = bufio.NewReaderSize(&v.body, 64<<10)
	return v
}

// Head returns the first bytes of the body, for an error that says what it was.
func (v *Values) Head() []byte { return v.body.head }

// MayBeStream reports whether the body is empty, or may be a stream of events, even one that was
// cut off. It is for a body that has ended without a value that its reader knows.
func (v *Values) MayBeStream() bool {
	head := bytes.TrimSpace(v.body.head)
	if len(head) == 0 {
		return true
	}
	line, _, _ := strings.Cut(string(head), "\n")
	return v.values == nil && slices.ContainsFunc([]string{"data:", "event:", "id:", "retry:", ":"}, func(field string) bool {
		return strings.HasPrefix(line, field) || strings.HasPrefix(field, line)
	})
}

// Next returns the next value. The error is io.EOF at the end, ErrForeign, ErrBroken, ErrTooLong
// or that of the underlying reader.
func (v *Values) Next() (Value, error) {
	switch {
	case v.events != nil:
		e, err := v.events.Next()
		return Value{Name: e.Name, Data: e.Data}, err
	case v.values != nil:
		return v.nextValue()
	}
	return v.start()
}

// start looks at the first byte that is not white space. White space before it is a sign of life:
// some servers send it while they are busy.
func (v *Values) start() (Value, error) {
	first, err := v.in.Peek(1)
	if err != nil {
		return Value{}, err
	}
	switch c := first[0]; {
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		_, err := v.in.Discard(1)
		return Value{}, err
	case c == 0xEF: // of a byte order mark
		if mark, err := v.in.Peek(3); err == nil && string(mark) == "\ufeff" {
			_, err := v.in.Discard(3)
			return Value{}, err
		}
		return Value{}, ErrForeign
	case c == '{' || c == '[':
		v.values = json.NewDecoder(v.in)
		return v.nextValue()
	case c != '<' && (v.kind == "text/event-stream" || strings.IndexByte("deir:", c) >= 0): // data, event, id, retry, a comment
		v.events = NewReader(v.in, v.maxBytes)
		v.events.Idle, v.events.IsWhole = true, isWhole
		return v.Next()
	}
	return Value{}, ErrForeign
}

// isWhole reports whether a line of data is a value by itself.
func isWhole(data []byte) bool {
	return json.Valid(data) || string(bytes.TrimSpace(data)) == DoneMark
}

func (v *Values) nextValue() (Value, error) {
	if v.done {
		return Value{}, io.EOF
	}
	var value json.RawMessage
	err := v.values.Decode(&value)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return Value{Data: value}, nil
	case errors.As(err, &syntax):
		if v.done = isDone(io.MultiReader(v.values.Buffered(), v.in)); v.done {
			return Value{Data: []byte(DoneMark)}, nil
		}
		return Value{}, ErrBroken
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Value{}, ErrBroken
	}
	return Value{}, err
}

// isDone reports whether the next text is DoneMark. Some servers end JSON like events. No more
// bytes are read than that takes.
func isDone(r io.Reader) bool {
	got, next := "", make([]byte, 1)
	for got != DoneMark {
		if _, err := io.ReadFull(r, next); err != nil {
			return false
		}
		if got = strings.TrimSpace(got + string(next)); got == "data:" {
			got = ""
		}
		if !strings.HasPrefix(DoneMark, got) && !strings.HasPrefix("data:", got) {
			return false
		}
	}
	return true
}

// headReader keeps the first bytes that it reads.
type headReader struct {
	in   io.Reader
	head []byte
}

func (h *headReader) Read(p []byte) (int, error) {
	n, err := h.in.Read(p)
	if room := maxHeadBytes - len(h.head); room > 0 {
		h.head = append(h.head, p[:min(n, room)]...)
	}
	return n, err
}

// Split returns the values in the data of one event: one, several in a row, or the elements of a
// list.
func Split(data []byte) ([]json.RawMessage, error) {
	values := json.NewDecoder(bytes.NewReader(data))
	var all []json.RawMessage
	for {
		var value json.RawMessage
		switch err := values.Decode(&value); {
		case err == io.EOF: //nolint:errorlint // it is never wrapped
			return all, nil
		case err != nil:
			return all, ErrBroken
		}
		if value[0] != '[' {
			all = append(all, value)
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return all, ErrBroken
		}
		all = append(all, list...)
	}
}
