package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/telemetry"
)

// maxBody is the maximum size of a request body.
const maxBody = 4 << 20

// ServeHTTP serves MCP's streamable transport: requests with metadata of their own as 2026-07-28,
// others with the version negotiated by initialize.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.ServeHTTP(w, r) }

// front returns the HTTP handler. It checks the origin, then the token, then the body, and then
// chooses the protocol version.
func (s *Server) front() http.Handler {
	server := func(*http.Request) *mcp.Server { return s.mcp }
	stateless := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: s.cfg.Log, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
	})
	stateful := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Logger: s.cfg.Log, MaxRequestBodyBytes: maxBody, EventStore: mcp.NewMemoryEventStore(nil), SessionTimeout: time.Hour,
	})
	wires := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.route(w, r, stateless, stateful) })
	return s.sameOrigin(auth.RequireBearerToken(s.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(wires))
}

// sameOrigin refuses requests from web pages of other origins: the browser would send them with its
// user's rights (S15).
func (s *Server) sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(s.cfg.Origins, origin) {
			from, err := url.Parse(origin)
			if err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host) {
				http.Error(w, "Forbidden: requests from this origin are not allowed", http.StatusForbidden)
				return
			}
		}
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Origin") == "" {
			http.Error(w, "Forbidden: cross-site request", http.StatusForbidden)
			return
		}
		if s.cfg.Verify == nil { // only local clients can connect
			r.Header.Set("Authorization", "Bearer local")
		}
		next.ServeHTTP(w, r)
	})
}

// verify returns the principal of a token, and checks that the token was issued for this server.
// The token is never passed on (S15).
func (s *Server) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if s.cfg.Verify == nil {
		return &auth.TokenInfo{UserID: s.cfg.Local.ID, Extra: map[string]any{"principal": *s.cfg.Local}}, nil
	}
	p, err := s.cfg.Verify(ctx, token)
	if err != nil || p.ID == "" {
		return nil, fmt.Errorf("%w: it was not issued by this server", auth.ErrInvalidToken)
	}
	if s.cfg.Resource != "" && p.Audience != nil && !slices.Contains(p.Audience, s.cfg.Resource) {
		return nil, fmt.Errorf("%w: it was issued for another server", auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{UserID: p.ID, Extra: map[string]any{"principal": p}}, nil
}

// message is the part of a request that the front handler reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// route chooses the protocol version, and records whether the complete response was written (M4).
func (s *Server) route(w http.ResponseWriter, r *http.Request, stateless, stateful http.Handler) {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	lasts := &keepAliveWriter{ResponseWriter: w, every: s.cfg.Ping, onGone: gone}
	defer lasts.end()
	w, r = lasts, r.WithContext(ctx)
	version := r.Header.Get("Mcp-Protocol-Version")
	if r.Method != http.MethodPost {
		if version >= modernVersion {
			stateful = stateless
		}
		stateful.ServeHTTP(&noticeWriter{w, s}, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			http.Error(w, "request body exceeds 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the request body could not be read", http.StatusBadRequest)
		return
	}
	var m message
	unreadable := perdure.DecodeKnownJSON(body, &m)
	readable := unreadable == nil
	// The SDK is more lenient and might interpret the body differently from the headers checked
	// here (M7).
	if !readable && version >= modernVersion {
		fail(w, message{}, http.StatusBadRequest, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "invalid request body: " + unreadable.Error()})
		return
	}
	modern := version >= modernVersion || readable && metaOf(m.Params)[metaVersion] != nil
	if readable && m.Method != "" {
		if modern && refuse(w, r, m) {
			return
		}
		body = adapt(body, m)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := &reply{ended: make(chan struct{})}
	name, end := s.registerReply(answer)
	defer end()
	r.Header.Set(headerReply, name)
	r.Header.Set(headerTrace, telemetry.TraceParent(r.Context()))
	seen := &trackedWriter{ResponseWriter: &noticeWriter{w, s}, ctx: r.Context(), reply: answer}
	if modern {
		stateless.ServeHTTP(seen, r)
	} else {
		stateful.ServeHTTP(seen, r)
	}
	if !seen.broken && (r.Context().Err() == nil || answer.wasDelivered()) {
		s.recordDelivered(answer)
	}
}

// refuse answers requests that the SDK does not check: methods that do not exist on the stateless
// version, and a header that names another task than the body.
func refuse(w http.ResponseWriter, r *http.Request, m message) bool {
	switch m.Method {
	case methodResult, methodList:
		fail(w, m, http.StatusNotFound, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method + " does not exist in this version of the protocol"})
		return true
	case methodGet, methodUpdate, methodCancel:
		var params struct {
			TaskID string `json:"taskId"`
		}
		if err := perdure.DecodeKnownJSON(m.Params, &params); err != nil && len(m.Params) > 0 {
			fail(w, m, http.StatusBadRequest, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params: " + err.Error()})
			return true
		}
		if r.Header.Get("Mcp-Name") != params.TaskID {
			fail(w, m, http.StatusBadRequest, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the header Mcp-Name does not match the taskId in the body"})
			return true
		}
	}
	return false
}

// fail answers a message with a JSON-RPC error.
func fail(w http.ResponseWriter, m message, status int, failure *jsonrpc.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	id := m.ID
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	// The client may be gone.
	_, _ = w.Write(marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": failure}))
}

// metaOf returns the metadata of a request.
func metaOf(params json.RawMessage) map[string]json.RawMessage {
	var with struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if len(params) == 0 || perdure.DecodeKnownJSON(params, &with) != nil {
		return nil
	}
	return with.Meta
}

// noticeWriter replaces the SDK notifications that carry notices of this server by those notices;
// see notice. Each Write must be a whole event.
type noticeWriter struct {
	http.ResponseWriter
	s *Server
}

func (u *noticeWriter) Write(p []byte) (int, error) {
	event := notifier{u.s}.unwrapEvent(p)
	if n, err := u.ResponseWriter.Write(event); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (u *noticeWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// trackedWriter records whether a response was written completely.
type trackedWriter struct {
	http.ResponseWriter
	ctx    context.Context // of the request
	reply  *reply
	broken bool
}

func (w *trackedWriter) Write(p []byte) (n int, err error) {
	w.reply.write(func() bool {
		connected := w.ctx.Err() == nil // a client may disconnect as soon as it has read the response
		n, err = w.ResponseWriter.Write(p)
		w.broken = w.broken || err != nil
		return connected && err == nil
	})
	return n, err
}

// Flush sends buffered data.
func (w *trackedWriter) Flush() {
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		w.broken = true
	}
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
