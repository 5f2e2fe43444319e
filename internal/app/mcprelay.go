package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// relayLinger is how long a relay waits for the last responses after its client has left.
const relayLinger = 2 * time.Second

// relay passes the messages of one MCP client to one server after another. When a server is gone,
// the next one gets the handshake and the requests without a response again: a repeated call joins
// the one that runs, or gets its result (M4).
type relay struct {
	lines <-chan []byte // from the client; closed when it has left

	mu      sync.Mutex
	out     io.Writer // guarded by mu
	broken  error     // guarded by mu; why the client could not be written to
	hello   []byte    // guarded by mu; the initialize request, once it was answered
	ready   []byte    // guarded by mu; notifications/initialized
	waiting []relayed // guarded by mu; requests without a response
	skip    string    // guarded by mu; the id of the repeated initialize, whose response is dropped
}

// relayed is a request of the client.
type relayed struct {
	id   string
	line []byte
}

// headOf returns the method and the id of a message; empty: it has none. A line that is no single
// message has neither, and is only passed on.
func headOf(line []byte) (method, id string) {
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if perdure.DecodeKnownJSON(line, &head) != nil {
		return "", ""
	}
	return head.Method, idOf(head.ID)
}

// idOf returns the id that a JSON value means. Both sides may encode one id in different ways.
func idOf(value json.RawMessage) string {
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
		return ""
	case perdure.DecodeJSON(value, &text) == nil:
		return "text " + text
	}
	return string(value)
}

// newRelay starts to read from the client. The goroutine ends with the input or with ctx.
func newRelay(ctx context.Context, in io.Reader, out io.Writer) *relay {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		from := bufio.NewReaderSize(in, 64<<10)
		for {
			line, err := from.ReadBytes('\n')
			if len(bytes.TrimSpace(line)) > 0 {
				select {
				case lines <- append(bytes.TrimSpace(line), '\n'):
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return &relay{lines: lines, out: out}
}

// failure returns why the client could not be served to its end; nil: it has left.
func (r *relay) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// serve passes messages until the client has left, which it reports, or the server is gone. It
// closes the connection.
func (r *relay) serve(in *bufio.Reader, conn net.Conn) (left bool) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.passBack(in)
	}()
	defer func() { <-gone }()
	defer conn.Close()
	for _, line := range r.repeats() {
		if _, err := conn.Write(line); err != nil {
			return false
		}
	}
	for {
		select {
		case <-gone:
			return r.failure() != nil
		case line, more := <-r.lines:
			if !more {
				if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
					select {
					case <-gone:
					case <-time.After(relayLinger):
					}
				}
				return true
			}
			r.note(line)
			if _, err := conn.Write(line); err != nil {
				return false // a request is repeated
			}
		}
	}
}

// hold serves the client with a server of this process.
func (r *relay) hold(run func(in io.Reader, out io.Writer) error) error {
	here, there := net.Pipe()
	ended := make(chan error, 1) // capacity 1: one result
	go func() {
		err := run(there, there)
		ended <- errors.Join(err, there.Close())
	}()
	r.serve(bufio.NewReaderSize(here, 64<<10), here)
	return errors.Join(<-ended, r.failure())
}

// note remembers what the next server must get again.
func (r *relay) note(line []byte) {
	method, id := headOf(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case method == "notifications/initialized":
		r.ready = line
	case method == "notifications/cancelled":
		var of struct {
			Params struct {
				ID json.RawMessage `json:"requestId"`
			} `json:"params"`
		}
		if perdure.DecodeKnownJSON(line, &of) == nil { // it gets no response
			r.answered(idOf(of.Params.ID))
		}
	case method != "" && id != "":
		r.waiting = append(r.waiting, relayed{id, line})
	}
}

// answered removes a request, and keeps the handshake. The caller holds mu.
func (r *relay) answered(id string) {
	i := slices.IndexFunc(r.waiting, func(w relayed) bool { return w.id == id })
	if i < 0 {
		return
	}
	if method, _ := headOf(r.waiting[i].line); method == "initialize" {
		r.hello = r.waiting[i].line
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
}

// repeats returns what the next server gets first.
func (r *relay) repeats() (lines [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skip = ""
	if r.hello != nil {
		_, r.skip = headOf(r.hello)
		lines = append(lines, r.hello)
	}
	if r.hello != nil && r.ready != nil {
		lines = append(lines, r.ready)
	}
	for _, w := range r.waiting {
		lines = append(lines, w.line)
	}
	return lines
}

// passBack passes messages of the server to the client, until the server is gone or the client
// cannot be written to.
func (r *relay) passBack(in *bufio.Reader) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil { // a line that was cut off is part of a response that is repeated
			return
		}
		if !r.pass(line) {
			return
		}
	}
}

// pass passes one message. It reports whether the client could be written to.
func (r *relay) pass(line []byte) bool {
	method, id := headOf(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if method == "" && id != "" {
		if id == r.skip {
			r.skip = ""
			return true
		}
		r.answered(id)
	}
	if _, err := r.out.Write(line); err != nil {
		r.broken = err
		return false
	}
	return true
}
