package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/telemetry"
)

// Names used by the protocol versions.
const (
	modernVersion = "2026-07-28"                    // and later: stateless, Tasks as an extension
	extension     = "io.modelcontextprotocol/tasks" // SEP-2663
	metaCaps      = "io.modelcontextprotocol/clientCapabilities"
	metaVersion   = "io.modelcontextprotocol/protocolVersion"
	metaRelated   = "io.modelcontextprotocol/related-task"
	metaKey       = "io.github.perdure/key"  // a client's own idempotency key of a call (M4)
	metaCall      = "io.github.perdure/call" // the call to which a result belongs
	// what tools, hooks and policies learn about a call: an object of strings
	metaRequest = "io.github.perdure/metadata"
	// Internal, from front to middleware: the task parameter of 2025-11-25.
	metaTask  = "io.github.perdure/task"
	metaTrace = "traceparent" // the span of a request (SEP-414)
	// Internal, from front to middleware: the traceparent of the HTTP request.
	headerTrace = "Perdure-Trace"
	headerReply = "Perdure-Reply" // internal, from front to middleware: the name of the reply
)

// The task methods.
const (
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	methodResult = "tasks/result"
	methodList   = "tasks/list"
)

// codeCapability is the error code for a capability that the client did not declare on the request.
const codeCapability = -32021

// peer is the caller of one request and the features that it supports.
type peer struct {
	Principal
	modern  bool // 2026-07-28 or later
	tasks   bool // declared the Tasks extension on this request; always false for legacy clients
	elicits bool // supports elicitation: a person can be asked
	session *mcp.ServerSession
	reply   *reply // the HTTP response; nil on stdio
}

type peerKey struct{}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// capabilities are the client capabilities used here.
type capabilities struct {
	Elicitation json.RawMessage            `json:"elicitation"`
	Extensions  map[string]json.RawMessage `json:"extensions"`
}

// peer returns the caller of a request. On 2026-07-28 only the declarations on this request count.
func (s *Server) peer(req mcp.Request) (peer, error) {
	p := peer{}
	p.session, _ = req.GetSession().(*mcp.ServerSession)
	switch extra := req.GetExtra(); {
	case extra != nil && extra.TokenInfo != nil:
		p.Principal, _ = extra.TokenInfo.Extra["principal"].(Principal)
		s.mu.Lock()
		p.reply = s.replies[extra.Header.Get(headerReply)]
		s.mu.Unlock()
		p.reply.setCaller(p.Access)
	case s.cfg.Local != nil:
		p.Principal = *s.cfg.Local
	}
	if p.ID == "" {
		return p, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the request has no authenticated principal"}
	}
	var meta map[string]any
	if params := req.GetParams(); params != nil && !isNil(params) {
		meta = params.GetMeta()
	}
	if v, ok := meta[metaVersion].(string); ok && v >= modernVersion {
		p.modern = true
		var caps capabilities
		if text, err := json.Marshal(meta[metaCaps]); err == nil && perdure.DecodeKnownJSON(text, &caps) == nil {
			_, p.tasks = caps.Extensions[extension]
			p.elicits = caps.Elicitation != nil
		}
		return p, nil
	}
	if init := p.session.InitializeParams(); init != nil && init.Capabilities != nil {
		p.elicits = init.Capabilities.Elicitation != nil
	}
	return p, nil
}

// isNil reports whether params contains a nil pointer.
func isNil(params mcp.Params) bool {
	defer func() { _ = recover() }() // GetMeta of some SDK types panics on nil
	switch p := params.(type) {
	case *mcp.ListToolsParams:
		return p == nil
	case *mcp.InitializedParams:
		return p == nil
	case *mcp.PingParams:
		return p == nil
	case *mcp.ListPromptsParams:
		return p == nil
	case *mcp.ListResourcesParams:
		return p == nil
	case *mcp.ListResourceTemplatesParams:
		return p == nil
	case *mcp.DiscoverParams:
		return p == nil
	case *taskParams:
		return p == nil
	}
	return false
}

// unreachable is the handler of exposed tools. The middleware answers their calls before it.
func unreachable(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, errors.New("the call did not come through the middleware")
}

// receive answers requests about tasks, and passes the rest on to the SDK.
func (s *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		p, err := s.peer(req)
		if err != nil {
			return nil, err
		}
		ctx = withCaller(context.WithValue(ctx, peerKey{}, p), p.Access)
		if p.Access != nil {
			if err := p.Access.Check(access.Read); err != nil {
				return nil, s.rpcError(err)
			}
		}
		switch r := req.(type) {
		case *mcp.CallToolRequest:
			if x, ok := s.tools[r.Params.Name]; ok {
				return p.reply.answered(s.call(traced(ctx, r), p, x, r.Params))
			}
			if r.Params.Name == "task_result" && !p.tasks {
				return p.reply.answered(s.taskResultTool(ctx, p, r.Params))
			}
			if p.tasks && s.isTaskTool(r.Params.Name) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", r.Params.Name)}
			}
		case *mcp.SubscriptionsListenRequest:
			if want, ok := tasksOf(r); ok && p.modern {
				if !p.tasks {
					return nil, needsTasks()
				}
				return notifier{s}.listen(ctx, p, want)
			}
		case *mcp.ServerRequest[*taskParams]:
			if p.modern && !p.tasks {
				return nil, needsTasks()
			}
		}
		result, err := next(ctx, method, req)
		if err != nil {
			return nil, err
		}
		return s.adaptResult(p, result)
	}
}

// traced returns a context within the trace named by the client: in the metadata of the call or,
// failing that, in the header of the HTTP request, which the SDK does not pass on. An invalid
// traceparent is ignored.
func traced(ctx context.Context, r *mcp.CallToolRequest) context.Context {
	if r.Extra != nil {
		ctx = telemetry.WithParent(ctx, r.Extra.Header.Get(headerTrace))
	}
	named, _ := r.Params.Meta[metaTrace].(string)
	return telemetry.WithParent(ctx, named)
}

// adaptResult completes results of the SDK with what it does not know.
func (s *Server) adaptResult(p peer, result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		return s.adaptTools(p, r)
	case *mcp.InitializeResult:
		return withTasks(r)
	}
	return result, nil
}

// needsTasks is the error for a client that did not declare Tasks on the request.
func needsTasks() error {
	return &jsonrpc.Error{
		Code: codeCapability, Message: "this request requires the extension " + extension + ", but the client did not declare it",
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extension + `":{}}}}`),
	}
}

// rpcError converts an error of the engine to one of the protocol. Internal details go only to the
// log.
func (s *Server) rpcError(err error) error {
	var already *jsonrpc.Error
	switch {
	case err == nil || errors.As(err, &already):
		return err
	case errors.Is(err, perdure.Denied):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	case errors.Is(err, perdure.NotFound), errors.Is(err, perdure.Invalid), errors.Is(err, perdure.Conflict):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	case errors.Is(err, perdure.Unavailable), errors.Is(err, perdure.Limit):
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server is unavailable or at a limit; try again later"}
	}
	s.cfg.Log.Error("MCP request failed", "error", err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}
