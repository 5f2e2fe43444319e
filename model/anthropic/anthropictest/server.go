package anthropictest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// maxRequestBytes is the provider's limit for a request.
const maxRequestBytes = 32 << 20

// Config says how a server behaves. The zero value answers all requests completely.
type Config struct {
	Key string // required as x-api-key, otherwise the answer is 401; empty: no key is required

	// Cut decides after how many complete events the connection of a request breaks, with half also
	// after half of the bytes of the next event. An answer with fewer events is not cut. Cut is
	// called once per request, from several goroutines; requests are counted from 1, including
	// refused ones. nil: no connection breaks.
	Cut func(request int) (events int, half bool, cut bool)

	// Duplicate repeats every message_start, content_block_start, content_block_stop and
	// message_delta.
	Duplicate bool
}

// Server is an http.Handler for POST …/v1/messages. New makes one. It is safe for concurrent use.
// It breaks a connection with the panic http.ErrAbortHandler, so it needs a real http.Server around
// it.
type Server struct {
	model model.Model
	cfg   Config

	mu       sync.Mutex
	requests int   // guarded by mu
	events   []int // guarded by mu
}

var _ http.Handler = (*Server)(nil)

// New returns a server that answers with m.
func New(m model.Model, cfg Config) *Server { return &Server{model: m, cfg: cfg} }

// Events returns the number of events that were sent for each request, in the order in which the
// requests ended. A refused request has none, half an event does not count, and a repeated one
// counts twice. A request is included before its client can see the last event.
func (s *Server) Events() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages") {
		refuse(w, &fault{status: http.StatusNotFound, kind: "not_found_error", text: "Not found: " + r.URL.Path})
		return
	}
	out := s.begin(w)
	defer out.end()
	req, raw, err := s.read(r)
	if err != nil {
		refuse(w, err)
		return
	}
	out.answer(r.Context(), s.model.Stream(r.Context(), req), req.Model, raw)
}

// begin counts a request and decides where its connection breaks.
func (s *Server) begin(w http.ResponseWriter) *stream {
	s.mu.Lock()
	s.requests++
	n := s.requests
	s.mu.Unlock()

	out := &stream{w: w, control: http.NewResponseController(w), number: n, duplicate: s.cfg.Duplicate, breaksAt: -1}
	out.record = s.record
	if s.cfg.Cut != nil {
		if events, half, cut := s.cfg.Cut(n); cut {
			out.breaksAt, out.half = max(events, 0), half
		}
	}
	return out
}

// record stores the number of events of an ended request.
func (s *Server) record(sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, sent)
}

// read returns the decoded request and its body.
func (s *Server) read(r *http.Request) (model.Request, []byte, *fault) {
	if key := r.Header.Get("X-Api-Key"); s.cfg.Key != "" && key != s.cfg.Key {
		return model.Request{}, nil, &fault{status: http.StatusUnauthorized, kind: "authentication_error", text: "invalid x-api-key"}
	}
	if r.Header.Get("Anthropic-Version") == "" {
		return model.Request{}, nil, malformed("anthropic-version: header is required")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	switch {
	case err != nil:
		return model.Request{}, nil, malformed("the body could not be read: %v", err)
	case len(body) > maxRequestBytes:
		return model.Request{}, nil, &fault{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", text: "Request exceeds the maximum size"}
	}
	var q apiRequest
	if err := perdure.DecodeJSON(body, &q); err != nil {
		return model.Request{}, nil, malformed("%v", err)
	}
	if err := q.check(); err != nil {
		return model.Request{}, nil, err
	}
	return q.request(), body, nil
}

// answer streams the answer of the model. An error before any delta becomes a status.
func (o *stream) answer(ctx context.Context, deltas iter.Seq2[model.Delta, error], name string, raw []byte) {
	o.name, o.raw = name, raw
	for d, err := range deltas {
		if err != nil {
			o.reportError(ctx, err)
			return
		}
		if !o.started {
			o.begin(d)
		}
		o.add(d)
		if d.Finish != "" {
			o.finish(d.Finish)
			return
		}
	}
	panic(http.ErrAbortHandler) // the stream of the model was cut off
}

// reportError reports an error of the model: with a status or an event. Any other error breaks the
// connection.
func (o *stream) reportError(ctx context.Context, err error) {
	var failure *model.Error
	if ctx.Err() != nil || !errors.As(err, &failure) {
		panic(http.ErrAbortHandler)
	}
	f := faultOf(failure)
	if !o.started {
		refuse(o.w, f)
		return
	}
	o.sendLast("error", map[string]any{"type": "error", "error": f.body(), "request_id": o.id("req_")})
}

func (o *stream) id(prefix string) string { return fmt.Sprintf("%stest%06d", prefix, o.number) }
