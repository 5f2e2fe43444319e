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

// request is the state of one HTTP request. Only the goroutine that serves it uses it.
type request struct {
	id            string // shown in every response and log line
	path          string
	server        string // public URL of this server; empty: unknown
	route         string // router pattern of the path; empty: no route
	actor         string // the actor of writes: the principal over TCP; user or operator over the socket
	principal     string // owner of the idempotency keys
	secret        bool   // the response contains a secret and is never stored
	disclosure    Disclosure
	body          []byte   // the whole body; nil: none
	reservedBytes int64    // bytes of budget reserved for the body
	counted       bool     // already counted against the rate limit
	refused       bool     // refused by admission control
	cleanups      []func() // cleanups, called in reverse order after the response
	telemetry     *telemetry.Request

	rest   func(*stream)           // writes the rest of a long-running response; nil: there is none
	end    context.CancelCauseFunc // cancels the context of a request that may be long-running; nil otherwise
	detach func() bool             // detaches the context from that of net/http

	// With an idempotency key, seed and at come from the first attempt; otherwise seed is random.
	seed     [32]byte
	at       time.Time
	hasKey   bool // the request has an idempotency key
	repeated bool // an earlier attempt was started and may have taken effect
}

type requestKey struct{}

// requestOf returns the state of the request in ctx.
func requestOf(ctx context.Context) *request {
	if req, ok := ctx.Value(requestKey{}).(*request); ok {
		return req
	}
	return &request{disclosure: Standard}
}

// ServeHTTP serves one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	req := &request{id: requestID(r), path: r.URL.Path, server: a.cfg.URL, disclosure: a.cfg.Disclosure, at: began}
	rand.Read(req.seed[:]) // never fails
	ctx, recorded := a.cfg.Telemetry.Begin(r, req.id)
	req.telemetry = recorded
	r = r.WithContext(context.WithValue(ctx, requestKey{}, req))
	out := newResponseWriter(w, a.cfg.Timing.Write)
	out.Header().Set("X-Request-Id", req.id)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.Header().Set("Cache-Control", "no-store")
	finish := func(r *http.Request, panicked any) (cut bool) {
		for _, leave := range slices.Backward(req.cleanups) {
			leave()
		}
		a.queues.bodies.Release(req.reservedBytes)
		cut = a.logRequest(out, r.WithContext(recorded.WithSpan(r.Context())), began, panicked)
		recorded.End(r, req.route, out.status)
		return cut
	}
	taken := false
	defer func() {
		if panicked := recover(); !taken && finish(r, panicked) {
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
	rest := func() { req.rest(&stream{out: out}) }
	conn := a.hijack(out, r, req)
	if conn == nil {
		rest()
		return
	}
	taken = true
	short := summaryRequest(r)
	// The connection is closed only when serveRest returns.
	go conn.serveRest(rest, func(panicked any) bool { return finish(short, panicked) })
}

// answer checks a request and passes it to its operation.
func (a *API) answer(out *responseWriter, r *http.Request, req *request) error {
	if err := a.checkHeaderLimits(r); err != nil {
		return err
	}
	route, pattern := a.mux.Handler(r)
	known := a.routes[pattern]
	known.deprecation.setHeaders(out.Header())
	g, mcp := a.queueOf(r, known.class), r.URL.Path == mcpPath && a.cfg.MCP != nil
	if mcp {
		g = nil // determined by its body
	}
	if err := a.refuseEarly(r, req, out, g); err != nil {
		return err
	}
	if g != nil && g == a.queues.open {
		r = req.detachContext(r)
	}
	r, leave, err := a.identify(r, req, pattern)
	req.cleanups = append(req.cleanups, leave)
	if err != nil {
		return err
	}
	if mcp {
		return a.answerMCP(out, r)
	}
	if err := a.countRate(r.Context(), out, g); err != nil {
		return err
	}
	if escaped := r.URL.EscapedPath(); pattern == "" || path.Clean(escaped) != escaped {
		return a.serveUnrouted(out, r, route, pattern)
	}
	if !isText(r.URL.Path) { // no name or id contains such text, and databases refuse it
		return &Problem{Status: http.StatusNotFound, Detail: "the path is not valid UTF-8 or contains a NUL character"}
	}
	for name, values := range r.URL.Query() {
		if !isText(name + strings.Join(values, "")) {
			return invalid("query", "it is not valid UTF-8 or contains a NUL character")
		}
	}
	_, req.route, _ = strings.Cut(pattern, " ")
	if err := a.authorize(r.Context(), pattern); err != nil {
		return err
	}
	if !isWrite(r.Method) {
		if err := a.admit(r.Context(), g); err != nil {
			return err
		}
		req.cleanups = append(req.cleanups, g.release)
		if known.tagged {
			a.showTagged(out, r)
		} else {
			a.mux.ServeHTTP(out, r)
		}
		return nil
	}
	if a.isDraining() {
		return draining()
	}
	if g.full(req.principal) { // before the body is read
		a.countRefusal(r.Context(), g.name)
		return g.refusal()
	}
	if err := a.readBody(out, r, known); err != nil {
		return err
	}
	if err := a.admit(r.Context(), g); err != nil {
		return err
	}
	defer g.release()
	return a.once(out, r, pattern, func(w http.ResponseWriter) { a.checkConditions(w, r, pattern) })
}

// isText reports whether every store can hold s as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// checkHeaderLimits refuses a request whose target or header exceeds the limits (S6).
func (a *API) checkHeaderLimits(r *http.Request) error {
	if len(r.RequestURI) > a.cfg.Limits.Target {
		return &Problem{Status: http.StatusRequestURITooLong, Detail: fmt.Sprintf("path and query are longer than %d bytes", a.cfg.Limits.Target)}
	}
	lines := 0
	for _, values := range r.Header {
		lines += len(values)
	}
	if lines > a.cfg.Limits.Headers {
		return &Problem{Status: http.StatusRequestHeaderFieldsTooLarge, Detail: fmt.Sprintf("the request header has more than %d lines", a.cfg.Limits.Headers)}
	}
	return nil
}

// serveUnrouted answers a request without a route; the router's own response is plain text (H3).
func (a *API) serveUnrouted(out *responseWriter, r *http.Request, route http.Handler, pattern string) error {
	if a.routes[pattern].class == isPage && a.cfg.Manual != nil && r.URL.Path == manualPath+"/" {
		a.cfg.Manual.ServeHTTP(out, r) // signedBy redirects to the path without the slash
		return nil
	}
	if pattern == "" {
		probe := &recorder{header: http.Header{}}
		route.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			out.Header()["Allow"] = probe.header["Allow"]
			return &Problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not allowed for this path; allowed: " + probe.header.Get("Allow")}
		}
	}
	return &Problem{Status: http.StatusNotFound, Detail: "no such path; see /openapi.json for the available ones"}
}

// logRequest writes the log line of a request and handles a panic. It returns true if the response
// must be cut, so that a client does not mistake it for a complete one.
func (a *API) logRequest(out *responseWriter, r *http.Request, began time.Time, panicked any) (cut bool) {
	if err, ok := panicked.(error); panicked != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
		a.cfg.Log.ErrorContext(r.Context(), "request panicked", "request_id", requestOf(r.Context()).id, "panic", panicked, "stack", string(debug.Stack()))
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

// requestID returns the caller's own id of the request if it is safe in a log, else a new one.
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

// newID returns the id of a resource that the request creates. It is the same for every attempt
// under one idempotency key.
func newID[T perdure.ID](ctx context.Context) T {
	req := requestOf(ctx)
	return perdure.DeriveID[T](perdure.Secret(req.seed), req.at, "request")
}
