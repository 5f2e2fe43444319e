package mcptool

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// The names of the Tasks extension (SEP-2663).
const (
	extension    = "io.modelcontextprotocol/tasks"
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	metaKey      = "io.github.perdure/key"     // a call's own key: the same key is the same call, to a server that says so by an extension of this name
	metaTrace    = "traceparent"               // the span that a call is made in (SEP-414)
	metaCreated  = "io.github.perdure/created" // between what reads the wire and what follows: the task that a call became
)

// headerMismatch refuses a request whose headers do not say what its body says (M7).
const headerMismatch = -32020

var errTooLong = errors.New("the answer of the MCP server exceeds 16 MiB")

// maxBody is the most that an answer to a call, or an event of a stream, may have.
const maxBody = 16 << 20

// plainResult makes a result that is a task into one that the SDK knows: the task is in its metadata.
func plainResult(result json.RawMessage) (plain json.RawMessage, isTask bool) {
	var kind struct {
		Type string `json:"resultType"`
	}
	if perdure.DecodeKnownJSON(result, &kind) != nil || kind.Type != "task" {
		return result, false
	}
	return mustJSON(map[string]any{"resultType": "complete", "content": []any{}, "_meta": map[string]any{metaCreated: result}}), true
}

// exact gives a result the numbers that its server wrote: the SDK reads them as floats, which hold no more than 53 bits.
func exact(r *mcp.CallToolResult, written json.RawMessage) {
	var as struct {
		Structured json.RawMessage            `json:"structuredContent"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	if perdure.DecodeKnownJSON(written, &as) != nil {
		return
	}
	if r.StructuredContent != nil && as.Structured != nil {
		r.StructuredContent = as.Structured
	}
	for key := range r.Meta {
		if value, ok := as.Meta[key]; ok {
			r.Meta[key] = value
		}
	}
}

// plainMessage is plainResult for a whole message.
func plainMessage(text []byte) []byte {
	if !bytes.Contains(text, []byte(`"task"`)) {
		return text
	}
	fields := map[string]json.RawMessage{}
	if perdure.DecodeJSON(text, &fields) != nil {
		return text
	}
	result, ok := plainResult(fields["result"])
	if !ok {
		return text
	}
	fields["result"] = result
	return mustJSON(fields)
}

// taskWay is a way to a server over HTTP on which calls may become tasks: it names the task of a request in its header (M7),
// shows the SDK results that it knows, and notes how long the server wants to be left alone.
type taskWay struct {
	next http.RoundTripper
	wait func(time.Duration)
	came func(call string, result json.RawMessage) // is told what a call came to, as it was written
	gone <-chan struct{}                           // closed when nothing is to be sent any more
}

// RoundTrip implements http.RoundTripper.
func (w *taskWay) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-w.gone:
		if r.Body != nil {
			_ = r.Body.Close() // nobody reads it
		}
		return nil, mcp.ErrConnectionClosed
	default:
	}
	if r.Method != http.MethodPost || r.Body == nil {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // it is read
	if err != nil {
		return nil, err
	}
	sent := r.Clone(r.Context())
	sent.Body, sent.GetBody = io.NopCloser(bytes.NewReader(body)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	var m struct {
		Method string `json:"method"`
		Params struct {
			TaskID string                     `json:"taskId"`
			Meta   map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	_ = perdure.DecodeKnownJSON(body, &m) // what is none has no method
	if strings.HasPrefix(m.Method, "tasks/") {
		sent.Header.Set("Mcp-Name", m.Params.TaskID)
	}
	var call string
	_ = perdure.DecodeJSON(m.Params.Meta[metaCall], &call) // what is none has no name
	resp, err := w.next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusTooManyRequests {
		w.wait(retryAfter(resp.Header.Get("Retry-After"), time.Now()))
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch strings.TrimSpace(kind) {
	case "application/json":
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
		_ = resp.Body.Close() // it is read
		if err != nil || len(text) > maxBody {
			return nil, cmp.Or(err, errTooLong)
		}
		if m.Method == "tools/call" {
			w.hear(call, text)
			text = plainMessage(text)
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	case "text/event-stream":
		if m.Method == "tools/call" {
			resp.Body = &plainStream{body: resp.Body, in: bufio.NewReaderSize(resp.Body, 64<<10), hear: func(text []byte) { w.hear(call, text) }}
		} // of other streams the SDK bounds the events
	default:
		resp.Body = bounded{io.LimitReader(resp.Body, maxBody), resp.Body}
	}
	return resp, nil
}

// hear notes what a call came to, if a message says so.
func (w *taskWay) hear(call string, text []byte) {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if perdure.DecodeKnownJSON(text, &m) == nil && m.Result != nil {
		w.came(call, m.Result)
	}
}

// bounded is a body of which no more is read than we want.
type bounded struct {
	io.Reader
	io.Closer
}

// maxAlone is the longest that a server is left alone because it asks for it.
const maxAlone = time.Hour

// retryAfter is what a Retry-After asks for: seconds, or a moment. Zero: nothing.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxAlone/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxAlone)
	}
	return 0
}

// plainStream is a stream of events whose messages are as the SDK knows them.
type plainStream struct {
	body io.Closer
	in   *bufio.Reader
	hear func(message []byte)
	left []byte
}

// field begins a line of a message. A space may follow, or not.
var field = []byte("data:")

// Read implements io.Reader.
func (s *plainStream) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		text, err := s.in.ReadSlice('\n')
		whole := bytes.Clone(text)
		for err == bufio.ErrBufferFull && len(whole) <= maxBody { //nolint:errorlint // it is never wrapped
			text, err = s.in.ReadSlice('\n')
			whole = append(whole, text...)
		}
		switch {
		case len(whole) == 0:
			return 0, err
		case len(whole) > maxBody:
			return 0, errTooLong
		}
		if data, ok := bytes.CutPrefix(whole, field); ok && err == nil {
			data = bytes.TrimSpace(data)
			s.hear(data)
			whole = append(append(bytes.Clone(field), plainMessage(data)...), '\n')
		}
		s.left = whole
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *plainStream) Close() error { return s.body.Close() }
