package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/telemetry"
)

// request is what one request brought, for all who answer it. Only the goroutine that serves it touches it.
type request struct {
	id         string // in every answer and log line
	path       string
	server     string // the URL of this server; empty: it is not known
	route      string // pattern of the path; empty: there is nothing at it
	actor      string // who acts: the principal over TCP; user or operator over the socket
	principal  string // whose idempotency keys it uses
	secret     bool   // its answer is shown once, and never kept
	disclosure Disclosure
	body       []byte   // whole; nil: none came
	held       int64    // bytes of room that the body takes
	counted    bool     // against the rate of its principal
	refused    bool     // there was no place for it
	leaves     []func() // called when it was answered, the last one first
	told       *telemetry.Request

	rest  func(*stream)           // writes the rest of an answer that goes on; nil: there is none
	end   context.CancelCauseFunc // of the context of one that may go on; nil: it cannot
	untie func() bool             // from the context of net/http

	// Of a request with an idempotency key; else seed is random.
	seed  [32]byte
	at    time.Time
	named bool // it has a key
	again bool // it was begun before, and may have had its effect
}

type requestKey struct{}

// requestOf returns what the request in ctx brought.
func requestOf(ctx context.Context) *request {
	if req, ok := ctx.Value(requestKey{}).(*request); ok {
		return req
	}
	return &request{disclosure: Standard}
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	req := &request{id: requestID(r), path: r.URL.Path, server: a.cfg.URL, disclosure: a.cfg.Disclosure, at: began}
	rand.Read(req.seed[:]) // never fails
	ctx, told := a.cfg.Telemetry.Begin(r, req.id)
	req.told = told
	r = r.WithContext(context.WithValue(ctx, requestKey{}, req))
	out := newAnswer(w, a.cfg.WriteTimeout)
	out.Header().Set("X-Request-Id", req.id)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.Header().Set("Cache-Control", "no-store")
	finish := func(r *http.Request, out *answer, panicked any) (cut bool) {
		for _, leave := range slices.Backward(req.leaves) {
			leave()
		}
		a.gates.bodies.giveBack(req.held)
		cut = a.account(out, r.WithContext(told.Traced(r.Context())), began, panicked)
		told.End(r, req.route, out.status)
		return cut
	}
	taken := false
	defer func() {
		if panicked := recover(); !taken && finish(r, out, panicked) {
			panic(http.ErrAbortHandler)
		}
	}()
	if err := a.answer(out, r, req); err != nil {
		a.refuse(out, r, err)
		return
	}
	if req.rest == nil {
		return
	}
	l := a.takeOver(out, r, req)
	if l == nil {
		req.rest(&stream{out: out})
		return
	}
	taken = true
	short := brief(r)
	go a.goOn(l, req, func(out *answer, panicked any) bool { return finish(short, out, panicked) }) // its connection waits for it
}

// answer checks a request and hands it to its operation.
func (a *API) answer(out *answer, r *http.Request, req *request) error {
	if err := a.bounded(r); err != nil {
		return err
	}
	route, pattern := a.mux.Handler(r)
	a.routes[pattern].farewell.say(out.Header())
	g, mcp := a.gates.of(r, pattern), r.URL.Path == mcpPath && a.cfg.MCP != nil
	if mcp {
		g = nil // its body tells
	}
	if err := a.turnAway(r, req, out, g); err != nil {
		return err
	}
	if g != nil && g == a.gates.open {
		r = req.outlive(r)
	}
	r, leave, err := a.identify(r, req, pattern)
	req.leaves = append(req.leaves, leave)
	if err != nil {
		return err
	}
	if mcp {
		return a.answerMCP(out, r)
	}
	if err := a.pace(r.Context(), out, g); err != nil {
		return err
	}
	if escaped := r.URL.EscapedPath(); pattern == "" || path.Clean(escaped) != escaped {
		return a.unrouted(out, r, route, pattern)
	}
	if !isText(r.URL.Path) { // which no name or id is, and no database is asked for it
		return &Problem{Status: http.StatusNotFound, Detail: "nothing has this name: it is not UTF-8, or has a NUL in it"}
	}
	for name, values := range r.URL.Query() {
		if !isText(name + strings.Join(values, "")) {
			return invalid("query", "it is not UTF-8, or has a NUL in it")
		}
	}
	_, req.route, _ = strings.Cut(pattern, " ")
	if err := a.permit(r.Context(), pattern); err != nil {
		return err
	}
	if !isWrite(r.Method) {
		if err := a.admit(r.Context(), g); err != nil {
			return err
		}
		req.leaves = append(req.leaves, g.leave)
		if a.routes[pattern].tagged {
			a.showTagged(out, r)
		} else {
			a.mux.ServeHTTP(out, r)
		}
		return nil
	}
	if a.drains() {
		return draining()
	}
	if g.full(req.principal) { // before the body is read
		a.refused(r.Context(), g.name)
		return g.refusal()
	}
	if err := a.readBody(out, r, pattern); err != nil {
		return err
	}
	if err := a.admit(r.Context(), g); err != nil {
		return err
	}
	defer g.leave()
	return a.once(out, r, pattern, func(w http.ResponseWriter) { a.onCondition(w, r, pattern) })
}

// isText reports whether a text can be one in every store.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// bounded refuses what is larger than any honest request (S6).
func (a *API) bounded(r *http.Request) error {
	if len(r.RequestURI) > a.cfg.MaxTargetSize {
		return &Problem{Status: http.StatusRequestURITooLong, Detail: fmt.Sprintf("the path and the query have more than %d bytes", a.cfg.MaxTargetSize)}
	}
	lines := 0
	for _, values := range r.Header {
		lines += len(values)
	}
	if lines > a.cfg.MaxHeaders {
		return &Problem{Status: http.StatusRequestHeaderFieldsTooLarge, Detail: fmt.Sprintf("the header has more than %d lines", a.cfg.MaxHeaders)}
	}
	return nil
}

// unrouted is the answer to a path or method that does not exist: the router's own is plain text (H3).
func (a *API) unrouted(out *answer, r *http.Request, route http.Handler, pattern string) error {
	if isManual(pattern) && a.cfg.Manual != nil && r.URL.Path == manualPath+"/" {
		a.cfg.Manual.ServeHTTP(out, r) // which sends them one sign further
		return nil
	}
	if pattern == "" {
		probe := &recorder{header: http.Header{}}
		route.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			out.Header()["Allow"] = probe.header["Allow"]
			return &Problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not for this path; allowed: " + probe.header.Get("Allow")}
		}
	}
	return &Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path; see /openapi.json for what there is"}
}

// account writes the one log line of a request, and answers for a panic. cut: the answer is to be cut, so that nobody takes it for
// whole.
func (a *API) account(out *answer, r *http.Request, began time.Time, panicked any) (cut bool) {
	if err, ok := panicked.(error); panicked != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
		a.cfg.Log.ErrorContext(r.Context(), "a request panicked", "request_id", requestOf(r.Context()).id, "panic", panicked, "stack", string(debug.Stack()))
		if out.status == 0 {
			a.refuse(out, r, &Problem{Status: http.StatusInternalServerError})
			panicked = nil
		}
	}
	level := slog.LevelDebug
	if out.status >= http.StatusInternalServerError && !requestOf(r.Context()).refused {
		level = slog.LevelWarn
	}
	a.cfg.Log.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", out.status, "bytes", out.bytes,
		"took", time.Since(began), "request_id", requestOf(r.Context()).id)
	out.end()
	return panicked != nil
}

// requestID is the caller's own id for the request when it is harmless in a log, else a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	allowed := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c)
	}
	if id == "" || len(id) > 64 || strings.TrimFunc(id, allowed) != "" {
		return uuid.NewString()
	}
	for _, c := range id {
		if !allowed(c) {
			return uuid.NewString()
		}
	}
	return id
}

// newID makes the id of something that the request creates: the same for the same idempotency key.
func newID[T perdure.ID](ctx context.Context) T {
	req := requestOf(ctx)
	return perdure.DeriveID[T](perdure.Secret(req.seed), req.at, "request")
}
