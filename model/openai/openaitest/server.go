// Package openaitest is a test server for the Chat Completions API. Any model.Model answers behind
// it, such as a scripted one. The server can cut and repeat events.
//
// The package imports the root package and model.
//
// The one thing to know: it refuses what OpenAI refuses. A tool message without its call, a call
// without its result, or a message without content is answered with status 400, so that tests find
// a malformed transcript.
package openaitest

import (
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/perdure/perdure/model"
)

const maxBodyBytes = 64 << 20

// Config says what the server requires, and how it fails. The zero value requires nothing and does
// not fail.
type Config struct {
	// Key is the bearer token that every request needs; empty: none.
	Key string
	// Cut decides whether the connection of a request breaks: after a number of complete events,
	// and with half after half of the bytes of the next event. It is called once for each
	// well-formed request; requests are counted from 1. An answer with fewer events is not cut.
	// nil: no connection breaks. Several goroutines call it at once.
	Cut func(request int) (events int, half bool, cut bool)
	// Duplicate repeats each event that opens a call or finishes the answer.
	Duplicate bool
}

// Server handles POST to any path that ends in /chat/completions. New makes one. It is safe for
// concurrent use. It breaks a connection with the panic http.ErrAbortHandler, so it needs a real
// HTTP server around it.
type Server struct {
	model model.Model
	cfg   Config

	mu       sync.Mutex // guards everything below
	count    int
	events   []int
	requests []model.Request
	attempts map[[sha256.Size]byte]int // by body
}

var _ http.Handler = (*Server)(nil)

// New returns a server that answers with m.
//
// m receives the request as it was before the adapter encoded it: with notifications, and with the
// images of results in their places. What the protocol does not carry is missing: session,
// thinking, message ids. Attempt is how many times the same body was received. An *model.Error of m
// is answered with a status if it comes first, and inside the stream otherwise; after code Stalled
// nothing more is sent. A stream of m that ends without a finish breaks the connection.
func New(m model.Model, cfg Config) *Server {
	return &Server{model: m, cfg: cfg, attempts: map[[sha256.Size]byte]int{}}
}

// Events returns the number of events that were sent for each ended request, in the order of their
// ends. A repeated event counts twice, and half an event does not count.
func (s *Server) Events() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.events...)
}

// Requests returns the requests to the model so far.
func (s *Server) Requests() []model.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]model.Request(nil), s.requests...)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		problem{http.StatusNotFound, "invalid_request_error", "unknown_url", "Invalid URL (" + r.Method + " " + r.URL.Path + ")"}.write(w)
		return
	}
	if r.Method != http.MethodPost {
		problem{http.StatusMethodNotAllowed, "invalid_request_error", "method_not_supported", "Only POST is allowed here."}.write(w)
		return
	}
	if s.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		problem{http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."}.write(w)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		problem{http.StatusRequestEntityTooLarge, "invalid_request_error", "", "The body is too large or broken."}.write(w)
		return
	}
	q, err := read(text)
	if err != nil {
		problem{http.StatusBadRequest, "invalid_request_error", "", err.Error()}.write(w)
		return
	}
	out := s.begin(q, text, w)
	defer out.ended() // also after the panic that breaks the connection
	out.answer(r.Context(), s.model.Stream(r.Context(), q.request))
}

// begin counts a request and makes its answer.
func (s *Server) begin(q *checkedRequest, text []byte, w http.ResponseWriter) *answer {
	s.mu.Lock()
	s.count++
	number := s.count
	body := sha256.Sum256(text)
	s.attempts[body]++
	q.request.Attempt = s.attempts[body]
	s.requests = append(s.requests, q.request)
	s.mu.Unlock()
	a := &answer{w: w, question: q, number: number, duplicate: s.cfg.Duplicate}
	a.ended = sync.OnceFunc(func() { s.finish(a.sent) })
	if s.cfg.Cut != nil {
		a.cutAfter, a.half, a.cut = s.cfg.Cut(number)
	}
	return a
}

func (s *Server) finish(events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, events)
}
