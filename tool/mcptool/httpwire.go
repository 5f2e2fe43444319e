package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// Headers of the protocol.
const (
	sessionHeader   = "Mcp-Session-Id"
	lastEventHeader = "Last-Event-ID"
	taskHeader      = "Mcp-Name"
)

// httpWire is an HTTP transport in front of the SDK. The SDK ends a connection, and all its calls,
// over a response that it does not expect. So the transport passes on only well-formed messages,
// and turns a refusal into the error of one request. It also sets the header with the task id (M7),
// and records how long the server asks not to be contacted.
type httpWire struct {
	c    *Client
	made *connection // the connection that it serves
	next http.RoundTripper

	mu   sync.Mutex
	open map[string]*httpRequest // guarded by mu; requests without an answer, by id as text
}

// httpRequest is a message of ours.
type httpRequest struct {
	id      jsonrpc.ID // not valid: a notification or a response
	method  string
	task    string // id of the task that it is about
	call    string // id on the wire of the tool call
	session bool   // it names a session

	lastEvent string // guarded by mu of the wire; id of the last event of its answer
	resumes   int    // guarded by mu of the wire; failed attempts to resume the stream of its answer
}

// RoundTrip implements http.RoundTripper.
func (w *httpWire) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-w.made.closed:
		if r.Body != nil {
			_ = r.Body.Close() // unused
		}
		return nil, mcp.ErrConnectionClosed
	default:
	}
	switch {
	case r.Method == http.MethodPost && r.Body != nil:
		return w.post(r)
	case r.Method == http.MethodGet && r.Header.Get(lastEventHeader) == "" && r.Response == nil: // not a redirect
		return w.listen(r), nil
	case r.Method == http.MethodGet && r.Response == nil:
		return w.resume(r)
	}
	return w.next.RoundTrip(r)
}

// readRequest reads a message of ours.
func readRequest(body []byte) *httpRequest {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			TaskID string                     `json:"taskId"`
			Meta   map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	_ = perdure.DecodeKnownJSON(body, &m) // other parameters: the method is read all the same
	q := &httpRequest{method: m.Method, task: m.Params.TaskID}
	if m.Method != "" {
		q.id, _ = idOf(m.ID)
	}
	_ = perdure.DecodeJSON(m.Params.Meta[metaCall], &q.call) // no call: no id
	return q
}

// post sends a message of ours.
func (w *httpWire) post(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // already read
	if err != nil {
		return nil, err
	}
	q := readRequest(body)
	q.session = r.Header.Get(sessionHeader) != ""
	ctx, cancel := context.WithCancel(r.Context())
	if q.method == methodDiscover {
		defer time.AfterFunc(w.c.probeTime(), cancel).Stop()
	}
	var reach reached
	sent := r.Clone(httptrace.WithClientTrace(ctx, reach.trace()))
	sent.Body, sent.GetBody = io.NopCloser(bytes.NewReader(body)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if strings.HasPrefix(q.method, "tasks/") {
		sent.Header.Set(taskHeader, q.task)
	}
	if q.id.IsValid() {
		w.mu.Lock()
		w.open[fmt.Sprint(q.id.Raw())] = q
		w.mu.Unlock()
	}
	resp, err := w.next.RoundTrip(sent)
	if err == nil {
		resp, err = w.answer(r, q, resp)
	}
	switch {
	case err == nil:
		resp.Body = &endingBody{resp.Body, cancel}
		return resp, nil
	case q.method == methodDiscover && r.Context().Err() == nil: // the SDK then uses an older version
		err = &refusal{why: "no answer: " + err.Error()}
	case q.call != "" && reach.never():
		err = &refusal{why: "no connection: " + err.Error()}
	}
	cancel()
	w.forget(q)
	var refused *refusal
	if errors.As(err, &refused) {
		return respond(r, http.StatusOK, "application/json", refused.encode(q.id)), nil
	}
	return nil, err
}

// reached tells whether a request has reached a connection. A transport that cannot be traced
// counts as having reached one.
type reached struct{ tried, got atomic.Bool }

func (r *reached) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { r.tried.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { r.got.Store(true) },
	}
}

// never reports whether there was no connection, so that nothing was sent.
func (r *reached) never() bool { return r.tried.Load() && !r.got.Load() }

// endingBody is a body whose request ends when it is closed.
type endingBody struct {
	io.ReadCloser
	end context.CancelFunc
}

// Close implements io.Closer.
func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// forget drops a request that gets no answer any more.
func (w *httpWire) forget(q *httpRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, fmt.Sprint(q.id.Raw()))
}

// answer converts the response to a message of ours.
func (w *httpWire) answer(r *http.Request, q *httpRequest, resp *http.Response) (*http.Response, error) {
	if resp.StatusCode >= http.StatusTooManyRequests {
		w.c.backOff(retryAfter(resp.Header.Get("Retry-After"), time.Now()))
	}
	switch {
	case resp.StatusCode/100 == 3 && resp.Header.Get("Location") != "":
		return resp, nil // the client follows it, and comes back
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return w.refused(r, q, resp)
	case !q.id.IsValid():
		_ = resp.Body.Close() // a notification has no answer
		return respond(r, http.StatusAccepted, "", nil), nil
	case isEventStream(resp) && q.method != methodDiscover:
		resp.Body = w.events(q, resp.Body)
		return resp, nil
	}
	// The server's own name of the form of the answer is not relied on.
	stream := w.events(q, resp.Body)
	text, err := io.ReadAll(io.LimitReader(stream, 4*maxBody))
	_ = stream.Close() // already read
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("HTTP %s with the type %q and no message of JSON-RPC", resp.Status, resp.Header.Get("Content-Type"))
	}
	answer := respond(r, http.StatusOK, "text/event-stream", text)
	if id := resp.Header.Get(sessionHeader); id != "" {
		answer.Header.Set(sessionHeader, id)
	}
	return answer, nil
}

func isEventStream(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return resp.StatusCode == http.StatusOK && strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// answerIn finds the answer to a request in a text. With any, an error without an id counts, too:
// the server did not get as far as reading the id.
func (w *httpWire) answerIn(q *httpRequest, text []byte, anyID bool) ([]byte, bool) {
	all, _ := messagesOf(text) // no message: none is an answer
	for _, m := range all {
		if clean, isAnswer := w.adapt(q, m); isAnswer {
			return clean, true
		}
	}
	if !anyID {
		return nil, false
	}
	fields := map[string]json.RawMessage{}
	clean, _, ok := mend(trimText(text))
	if !ok || perdure.DecodeJSON(clean, &fields) != nil || !given(fields["error"]) || given(fields["id"]) || fields["jsonrpc"] == nil {
		return nil, false
	}
	w.forget(q)
	return mustJSON(map[string]any{"jsonrpc": "2.0", "id": q.id.Raw(), "error": errorOf(fields["error"])}), true
}

// adapt writes a message of the server as the SDK expects it. isAnswer says that it answers q. An
// answer to no open request is dropped: clean is nil.
func (w *httpWire) adapt(q *httpRequest, m message) (clean []byte, isAnswer bool) {
	if m.method != "" {
		return m.text, false
	}
	w.mu.Lock()
	of, ok := w.open[fmt.Sprint(m.id.Raw())]
	delete(w.open, fmt.Sprint(m.id.Raw()))
	w.mu.Unlock()
	fields := map[string]json.RawMessage{}
	if !ok || perdure.DecodeJSON(m.text, &fields) != nil {
		return nil, false
	}
	fields["id"] = mustJSON(of.id.Raw())
	if of.method == "tools/call" && m.result != nil {
		w.c.received(of.call, m.result)
		plain, _ := plainResult(m.result)
		fields["result"] = decodable(plain)
	}
	if of.method == methodList && m.result != nil {
		fields["result"] = w.c.readableList(m.result)
	}
	return mustJSON(fields), of == q
}

// noise logs that something was skipped.
func (w *httpWire) noise(text []byte, why error) { w.c.noise(text, why) }
