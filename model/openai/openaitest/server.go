// Package openaitest is a server that speaks Chat Completions, for tests of whoever asks one. Behind it answers any
// model.Model, such as a scripted one; in front of it the wire can be cut and repeated.
//
// It imports the root and model. The one thing to know: it refuses what OpenAI refuses. A tool message without its
// call, a call without its result, or a message without content is 400, so that a malformed transcript is found here
// and not by a bill.
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

// Config says what the server asks for, and how it fails. The zero value is a server that does neither.
type Config struct {
	// Key is the bearer token that every request needs; empty: none does.
	Key string
	// Cut says whether the connection of a request breaks: after so many complete events, and, with half, half of the
	// next one's bytes. It is asked once for each request that is well formed, which are counted from 1; nil: none
	// breaks. An answer with fewer events stays whole. It is called by several goroutines at once.
	Cut func(request int) (events int, half bool, cut bool)
	// Duplicate sends each event twice that opens a call or finishes the answer.
	Duplicate bool
}

// Server is the server: POST to any path that ends with /chat/completions. Use New. It is safe for concurrent use.
// It breaks a connection by the panic of http.ErrAbortHandler, so it needs a real server around it.
type Server struct {
	model model.Model
	cfg   Config

	mu       sync.Mutex // guards what follows
	count    int
	events   []int
	requests []model.Request
	attempts map[[sha256.Size]byte]int // by body
}

var _ http.Handler = (*Server)(nil)

// New makes a server behind which m answers.
//
// m gets the request as it was before the adapter wrote it: with notifications, and with the images of results in
// their places. What the wire lacks it does not get: session, thinking, message ids. Attempt is how often the same body
// has come. An *model.Error of m before anything else is answered by a status, a later one inside of the stream; one of
// code Stalled, either way, by sending nothing more. A stream of m that ends without a finish breaks the connection.
func New(m model.Model, cfg Config) *Server {
	return &Server{model: m, cfg: cfg, attempts: map[[sha256.Size]byte]int{}}
}

// Events returns how many events were sent for each request that has ended so far, in the order of their ends. One
// that was sent twice counts twice, and half of one not at all.
func (s *Server) Events() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.events...)
}

// Requests returns what the model was asked so far.
func (s *Server) Requests() []model.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]model.Request(nil), s.requests...)
}

// ServeHTTP answers one request.
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
	defer out.ended() // also when the connection is broken, which is a panic
	out.answer(r.Context(), s.model.Stream(r.Context(), q.request))
}

// begin counts a request and makes its answer.
func (s *Server) begin(q *question, text []byte, w http.ResponseWriter) *answer {
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
