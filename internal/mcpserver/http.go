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

// maxBody is the most that a request may have.
const maxBody = 4 << 20

// ServeHTTP serves MCP's streamable transport: requests with metadata of their own as 2026-07-28, others as the version that
// their initialize asked for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.ServeHTTP(w, r) }

// front is what answers: origin, then who it is, then the body, then the wire.
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

// sameOrigin refuses pages of other origins: what a browser sends for them would act with its user's rights (S15).
func (s *Server) sameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(s.cfg.Origins, origin) {
			from, err := url.Parse(origin)
			if err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host) {
				http.Error(w, "Forbidden: pages of this origin may not call", http.StatusForbidden)
				return
			}
		}
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Origin") == "" {
			http.Error(w, "Forbidden: cross-site request", http.StatusForbidden)
			return
		}
		if s.cfg.Verify == nil { // nobody else can connect
			r.Header.Set("Authorization", "Bearer local")
		}
		next.ServeHTTP(w, r)
	})
}

// verify says whose a token is, and that it was made for this server. It is handed to nobody else (S15).
func (s *Server) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if s.cfg.Verify == nil {
		return &auth.TokenInfo{UserID: s.cfg.Local.ID, Extra: map[string]any{"principal": *s.cfg.Local}}, nil
	}
	p, err := s.cfg.Verify(ctx, token)
	if err != nil || p.ID == "" {
		return nil, fmt.Errorf("%w: it is not one of this server", auth.ErrInvalidToken)
	}
	if s.cfg.Resource != "" && p.Audience != nil && !slices.Contains(p.Audience, s.cfg.Resource) {
		return nil, fmt.Errorf("%w: it was made for another server", auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{UserID: p.ID, Extra: map[string]any{"principal": p}}, nil
}

// message is what the front reads of a request.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// route chooses the wire, and follows the answer until it is written whole (M4).
func (s *Server) route(w http.ResponseWriter, r *http.Request, stateless, stateful http.Handler) {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	lasts := &pinged{ResponseWriter: w, every: s.cfg.Ping, gone: gone}
	defer lasts.end()
	w, r = lasts, r.WithContext(ctx)
	version := r.Header.Get("Mcp-Protocol-Version")
	if r.Method != http.MethodPost {
		if version >= modernVersion {
			stateful = stateless
		}
		stateful.ServeHTTP(&unwrapping{w, s}, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			http.Error(w, "request body exceeds 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	var m message
	unreadable := perdure.DecodeKnownJSON(body, &m)
	readable := unreadable == nil
	if !readable && version >= modernVersion { // the SDK would read it, and in another way than what its header was compared with (M7)
		fail(w, message{}, http.StatusBadRequest, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body cannot be read: " + unreadable.Error()})
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
	name, end := s.underWay(answer)
	defer end()
	r.Header.Set(headerReply, name)
	r.Header.Set(headerTrace, telemetry.Parent(r.Context()))
	seen := &watched{ResponseWriter: &unwrapping{w, s}, ctx: r.Context(), reply: answer}
	if modern {
		stateless.ServeHTTP(seen, r)
	} else {
		stateful.ServeHTTP(seen, r)
	}
	if !seen.broken && (r.Context().Err() == nil || answer.wasWhole()) {
		s.told(answer)
	}
}

// refuse answers what the SDK does not know of: methods that the stateless wire has not, and the name of a task in the header.
func refuse(w http.ResponseWriter, r *http.Request, m message) bool {
	switch m.Method {
	case methodResult, methodList:
		fail(w, m, http.StatusNotFound, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method + " is not of this version of the protocol"})
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
			fail(w, m, http.StatusBadRequest, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the header Mcp-Name is not the task of the body"})
			return true
		}
	}
	return false
}

// fail refuses a message with an error of JSON-RPC.
func fail(w http.ResponseWriter, m message, status int, failure *jsonrpc.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	id := m.ID
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	_, _ = w.Write(marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": failure})) // a client that is gone asks again
}

// metaOf is the metadata of a request.
func metaOf(params json.RawMessage) map[string]json.RawMessage {
	var with struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if len(params) == 0 || perdure.DecodeKnownJSON(params, &with) != nil {
		return nil
	}
	return with.Meta
}

// unwrapping puts notices of ours in the place of what the SDK sent them as. It is written whole events.
type unwrapping struct {
	http.ResponseWriter
	s *Server
}

func (u *unwrapping) Write(p []byte) (int, error) {
	event := u.s.unwrapEvent(p)
	if n, err := u.ResponseWriter.Write(event); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// Unwrap gives the writer to http.ResponseController.
func (u *unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// watched notices whether an answer was written whole.
type watched struct {
	http.ResponseWriter
	ctx    context.Context // of the request
	reply  *reply
	broken bool
}

func (w *watched) Write(p []byte) (n int, err error) {
	w.reply.write(func() bool {
		there := w.ctx.Err() == nil // a client that goes once it has read was there
		n, err = w.ResponseWriter.Write(p)
		w.broken = w.broken || err != nil
		return there && err == nil
	})
	return n, err
}

// Flush sends what was written.
func (w *watched) Flush() {
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		w.broken = true
	}
}

// Unwrap gives the writer to http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
