package mcptool

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
)

// events reads a stream of events. q is the request whose answer ends it; nil: it is a stream of
// its own.
func (w *httpWire) events(q *httpRequest, body io.ReadCloser) io.ReadCloser {
	return &eventStream{w: w, q: q, body: body, in: bufio.NewReaderSize(body, 64<<10)}
}

// eventStream is a stream of events with the messages of the server, each in one event. What is no
// message is skipped.
type eventStream struct {
	w       *httpWire
	q       *httpRequest
	body    io.Closer
	in      *bufio.Reader
	sniffed bool
	pending []byte
	end     error // what Read returns after pending
}

// Read implements io.Reader.
func (s *eventStream) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		if s.end != nil {
			return 0, s.end
		}
		if !s.sniffed {
			s.sniffed = true
			if s.isJSON() {
				s.readJSON()
				continue
			}
		}
		s.readEvent()
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *eventStream) Close() error { return s.body.Close() }

// isJSON reports whether the body is JSON, whatever its type says.
func (s *eventStream) isJSON() bool {
	for n := 1; n <= 64; n++ {
		head, err := s.in.Peek(n)
		if err != nil {
			return false
		}
		if text := trimText(head); len(text) > 0 && !bytes.HasPrefix(byteOrderMark, text) {
			return text[0] == '{' || text[0] == '['
		}
	}
	return false
}

// readJSON reads a body that is JSON.
func (s *eventStream) readJSON() {
	text, err := io.ReadAll(io.LimitReader(s.in, maxBody+1))
	s.end = io.EOF
	switch {
	case err != nil && len(text) == 0:
		s.end = err
	case len(text) > maxBody:
		s.unreadable(text, errTooLong)
	default:
		s.data(text, cmp.Or(err, errors.New("it is not a message of JSON-RPC")))
	}
}

// readEvent reads one event.
func (s *eventStream) readEvent() {
	var data, kept []byte
	size, some := 0, false
	for {
		text, err := s.in.ReadSlice('\n')
		whole := bytes.Clone(text)
		for errors.Is(err, bufio.ErrBufferFull) && size+len(whole) <= maxBody {
			text, err = s.in.ReadSlice('\n')
			whole = append(whole, text...)
		}
		if size += len(whole); size > maxBody {
			s.end = errTooLong
			s.unreadable(append(data, whole...), errTooLong)
			return
		}
		line := bytes.TrimRight(whole, "\r\n")
		if !some {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			some = true
		case "id":
			s.w.seen(s.q, string(bytes.TrimSpace(value)))
			fallthrough
		case "retry":
			kept = append(append(kept, line...), '\n')
		}
		if err == nil && len(line) > 0 {
			continue
		}
		if err != nil {
			s.end = err
		}
		if s.pending = kept; len(kept) > 0 {
			s.pending = append(s.pending, '\n')
		}
		if len(bytes.TrimSpace(data)) > 0 {
			s.data(data, errors.New("it is not a message of JSON-RPC"))
		}
		return
	}
}

// data handles the text of one event.
func (s *eventStream) data(text []byte, why error) {
	all, noise := messagesOf(text)
	for _, m := range all {
		clean, isAnswer := s.w.adapt(s.q, m)
		s.write(clean)
		if isAnswer && s.q != nil {
			s.end = io.EOF
		}
	}
	if len(all) > 0 {
		return
	}
	if s.q != nil {
		if clean, ok := s.w.answerIn(s.q, text, true); ok {
			s.write(clean)
			s.end = io.EOF
			return
		}
	}
	if s.q != nil && s.q.session && s.q.id.IsValid() && surelyLostWords.MatchString(errorText(text)) && bytes.Contains(text, []byte(`"error"`)) {
		s.w.c.lostSession(s.w.made)
		s.w.forget(s.q)
		s.write((&refusal{why: errorText(text), lost: true}).encode(s.q.id))
		s.end = io.EOF
		return
	}
	if !s.unreadable(text, cmp.Or(noise, why)) {
		s.w.c.noise(text, cmp.Or(noise, why))
	}
}

// unreadable settles the call that an unreadable text answers: the server has ended it.
func (s *eventStream) unreadable(text []byte, why error) bool {
	if s.q == nil || s.q.call == "" {
		return false
	}
	id, ok := answeredBy(text)
	if !ok || fmt.Sprint(id.Raw()) != fmt.Sprint(s.q.id.Raw()) {
		return false
	}
	m, err := readLine(unreadableAnswer(s.q.id, text, why))
	if err != nil {
		return false
	}
	clean, _ := s.w.adapt(s.q, message{m, unreadableAnswer(s.q.id, text, why)})
	s.write(clean)
	s.end = io.EOF
	return true
}

// write adds an event with a message.
func (s *eventStream) write(text []byte) {
	if len(text) == 0 {
		return
	}
	s.pending = append(s.pending, "data: "...)
	s.pending = append(s.pending, bytes.ReplaceAll(text, []byte("\n"), []byte(" "))...)
	s.pending = append(s.pending, "\n\n"...)
}
