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

// Names of the Tasks extension (SEP-2663) and related metadata.
const (
	extension    = "io.modelcontextprotocol/tasks"
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	// Idempotency key of a call; a server with the extension of this name treats equal keys as one
	// call.
	metaKey     = "io.github.perdure/key"
	metaTrace   = "traceparent"               // the span of a call (SEP-414)
	metaCreated = "io.github.perdure/created" // internal: the task that a call became
)

// headerMismatch is the error code for headers that differ from the body (M7).
const headerMismatch = -32020

var errTooLong = errors.New("the answer of the MCP server is larger than 16 MiB")

// maxBody is the maximum size of an answer to a call, or of an event of a stream.
const maxBody = 16 << 20

// plainResult converts a result of type task, which the SDK does not know, to an ordinary one with
// the task in its metadata.
func plainResult(result json.RawMessage) (plain json.RawMessage, isTask bool) {
	var kind struct {
		Type string `json:"resultType"`
	}
	if perdure.DecodeKnownJSON(result, &kind) != nil || kind.Type != "task" {
		return result, false
	}
	return mustJSON(map[string]any{"resultType": "complete", "content": []any{}, "_meta": map[string]any{metaCreated: result}}), true
}

// exact restores the numbers of a result as the server wrote them: the SDK decodes them as floats,
// with only 53 bits of precision.
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

// plainMessage applies plainResult to a whole message.
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

// taskTransport is an HTTP transport for servers that may turn calls into tasks. It sets the header
// with the task id (M7), converts results for the SDK, and records how long the server asks not to
// be contacted.
type taskTransport struct {
	next http.RoundTripper
	wait func(time.Duration)
	came func(call string, result json.RawMessage) // called with the result of a call as received
	gone <-chan struct{}                           // closed when nothing more must be sent
	list func(message []byte) []byte               // called with each answer to tools/list
}

func (w *taskTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-w.gone:
		if r.Body != nil {
			_ = r.Body.Close() // unused
		}
		return nil, mcp.ErrConnectionClosed
	default:
	}
	if r.Method != http.MethodPost || r.Body == nil {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // already read
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
	_ = perdure.DecodeKnownJSON(body, &m) // malformed: no method
	if strings.HasPrefix(m.Method, "tasks/") {
		sent.Header.Set("Mcp-Name", m.Params.TaskID)
	}
	var call string
	_ = perdure.DecodeJSON(m.Params.Meta[metaCall], &call) // malformed: no id
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
		_ = resp.Body.Close() // already read
		if err != nil || len(text) > maxBody {
			return nil, cmp.Or(err, errTooLong)
		}
		if m.Method == "tools/call" {
			w.readEvents(call, text)
			text = plainMessage(text)
		} else if m.Method == methodList {
			text = w.list(text)
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	case "text/event-stream":
		switch m.Method {
		case "tools/call":
			resp.Body = &plainStream{body: resp.Body, in: bufio.NewReaderSize(resp.Body, 64<<10), convert: func(text []byte) []byte {
				w.readEvents(call, text)
				return plainMessage(text)
			}}
		case methodList:
			resp.Body = &plainStream{body: resp.Body, in: bufio.NewReaderSize(resp.Body, 64<<10), convert: w.list}
		} // of other streams, the SDK limits the size of events
	default:
		resp.Body = limitedBody{io.LimitReader(resp.Body, maxBody), resp.Body}
	}
	return resp, nil
}

// readEvents records the result of a call, if a message contains one.
func (w *taskTransport) readEvents(call string, text []byte) {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if perdure.DecodeKnownJSON(text, &m) == nil && m.Result != nil {
		w.came(call, m.Result)
	}
}

// limitedBody is a body with a size limit.
type limitedBody struct {
	io.Reader
	io.Closer
}

// maxBackOff is the maximum time for which a server's request not to be contacted is honoured.
const maxBackOff = time.Hour

// retryAfter parses a Retry-After header: seconds or a date. 0: there is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxBackOff/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxBackOff)
	}
	return 0
}

// plainStream is a stream of events whose messages are converted for the SDK.
type plainStream struct {
	body    io.Closer
	in      *bufio.Reader
	convert func(message []byte) []byte
	pending []byte
}

// field is the prefix of a line that holds a message. A space may follow.
var field = []byte("data:")

func (s *plainStream) Read(p []byte) (int, error) {
	if len(s.pending) == 0 {
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
			whole = append(append(bytes.Clone(field), s.convert(bytes.TrimSpace(data))...), '\n')
		}
		s.pending = whole
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

func (s *plainStream) Close() error { return s.body.Close() }
