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

// maxRequestBytes is what the provider takes of a request.
const maxRequestBytes = 32 << 20

// Config says how a server behaves. The zero value answers everybody, whole.
type Config struct {
	Key string // what x-api-key must be, else the answer is 401; empty: anything, or nothing

	// Cut says after how many complete events the connection of a request breaks, with half of the next event's bytes
	// first if half; an answer with fewer events stays whole. It is asked once a request, from several goroutines;
	// request counts from 1, refused ones too. nil: no connection breaks.
	Cut func(request int) (events int, half bool, cut bool)

	// Duplicate sends every message_start, content_block_start, content_block_stop and message_delta twice.
	Duplicate bool
}

// Server is an http.Handler that answers POST …/v1/messages. It is made by New and is safe for concurrent use. It breaks a
// connection by a panic with http.ErrAbortHandler, which a real http.Server understands.
type Server struct {
	model model.Model
	cfg   Config

	mu       sync.Mutex
	requests int   // guarded by mu
	events   []int // guarded by mu
}

var _ http.Handler = (*Server)(nil)

// New makes a server that answers with m.
func New(m model.Model, cfg Config) *Server { return &Server{model: m, cfg: cfg} }

// Events returns how many events each request was sent, in the order in which the requests ended. Refused requests were
// sent none; half an event does not count, and one that is sent twice counts twice. A request whose last event has
// reached its client is in it.
func (s *Server) Events() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// ServeHTTP answers one request.
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

// begin counts a request and asks where its connection breaks.
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

// record counts the events of a request that ended.
func (s *Server) record(sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, sent)
}

// read returns the question of a request, and its body.
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
	var q question
	if err := perdure.DecodeJSON(body, &q); err != nil {
		return model.Request{}, nil, malformed("%v", err)
	}
	if err := q.check(); err != nil {
		return model.Request{}, nil, err
	}
	return q.request(), body, nil
}

// answer streams what the model says. A first word that is an error becomes a status.
func (o *stream) answer(ctx context.Context, deltas iter.Seq2[model.Delta, error], name string, raw []byte) {
	o.name, o.raw = name, raw
	for d, err := range deltas {
		if err != nil {
			o.failed(ctx, err)
			return
		}
		if !o.begun {
			o.begin(d)
		}
		o.add(d)
		if d.Finish != "" {
			o.finish(d.Finish)
			return
		}
	}
	panic(http.ErrAbortHandler) // the model's own stream was cut
}

// failed says an error of the model: by a status, by an event, or, where it is none of the provider's, by silence.
func (o *stream) failed(ctx context.Context, err error) {
	var said *model.Error
	if ctx.Err() != nil || !errors.As(err, &said) {
		panic(http.ErrAbortHandler)
	}
	f := faultOf(said)
	if !o.begun {
		refuse(o.w, f)
		return
	}
	o.sendLast("error", map[string]any{"type": "error", "error": f.body(), "request_id": o.id("req_")})
}

func (o *stream) id(prefix string) string { return fmt.Sprintf("%stest%06d", prefix, o.number) }
