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

// The names of the wires.
const (
	modernVersion = "2026-07-28"                    // and later: stateless, Tasks as an extension
	extension     = "io.modelcontextprotocol/tasks" // SEP-2663
	metaCaps      = "io.modelcontextprotocol/clientCapabilities"
	metaVersion   = "io.modelcontextprotocol/protocolVersion"
	metaRelated   = "io.modelcontextprotocol/related-task"
	metaKey       = "io.github.perdure/key"  // a client's own key of a call (M4)
	metaCall      = "io.github.perdure/call" // the handle of the call that a result belongs to
	metaTask      = "io.github.perdure/task" // between our front and our middleware: the task parameter of the old wire
	metaTrace     = "traceparent"            // the span that a request is made in (SEP-414)
	headerTrace   = "Perdure-Trace"          // between our front and our middleware: the traceparent of the HTTP request
	headerReply   = "Perdure-Reply"          // between our front and our middleware: which HTTP answer this is
)

// methods of tasks.
const (
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	methodResult = "tasks/result"
	methodList   = "tasks/list"
)

// codeCapability says which capability the client did not declare on this request.
const codeCapability = -32021

// peer is who asks, and what they understand, for one request.
type peer struct {
	Principal
	modern  bool // 2026-07-28 or later
	tasks   bool // declared the Tasks extension on this request; never on an older wire
	elicits bool // can be asked
	session *mcp.ServerSession
	reply   *reply // of HTTP; nil elsewhere
}

type peerKey struct{}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// capabilities is what of a client's capabilities counts here.
type capabilities struct {
	Elicitation json.RawMessage            `json:"elicitation"`
	Extensions  map[string]json.RawMessage `json:"extensions"`
}

// peer reads who asks. What a client declared on another request does not count on the stateless wire.
func (s *Server) peer(req mcp.Request) (peer, error) {
	p := peer{}
	p.session, _ = req.GetSession().(*mcp.ServerSession)
	switch extra := req.GetExtra(); {
	case extra != nil && extra.TokenInfo != nil:
		p.Principal, _ = extra.TokenInfo.Extra["principal"].(Principal)
		s.mu.Lock()
		p.reply = s.replies[extra.Header.Get(headerReply)]
		s.mu.Unlock()
		p.reply.by(p.Who)
	case s.cfg.Local != nil:
		p.Principal = *s.cfg.Local
	}
	if p.ID == "" {
		return p, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "nobody knows who asks"}
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

// isNil reports params that are a nil pointer in an interface.
func isNil(params mcp.Params) bool {
	defer func() { _ = recover() }() // GetMeta of the SDK's own types takes no nil
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

// unreachable is the handler of marked tools: the middleware answers before it.
func unreachable(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, errors.New("the call did not come through the middleware")
}

// receive answers what has to do with tasks, and hands the rest on.
func (s *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		p, err := s.peer(req)
		if err != nil {
			return nil, err
		}
		ctx = asking(context.WithValue(ctx, peerKey{}, p), p.Who)
		if p.Who != nil {
			if err := p.Who.Check(access.Read); err != nil {
				return nil, s.rpcError(err)
			}
		}
		switch r := req.(type) {
		case *mcp.CallToolRequest:
			if x, ok := s.tools[r.Params.Name]; ok {
				return p.reply.answered(s.call(traced(ctx, r), p, x, r.Params))
			}
			if r.Params.Name == "task_result" && !p.tasks {
				return p.reply.answered(s.toldResult(ctx, p, r.Params))
			}
			if p.tasks && s.isTaskTool(r.Params.Name) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", r.Params.Name)}
			}
		case *mcp.SubscriptionsListenRequest:
			if want, ok := tasksOf(r); ok && p.modern {
				if !p.tasks {
					return nil, needsTasks()
				}
				return s.listen(ctx, p, want)
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
		return s.dress(p, result)
	}
}

// traced is the context of a call in the trace that its client names: in its metadata, which is the nearest to the call, else in the
// header of its HTTP request, which the SDK does not hand on. What is no traceparent counts as none.
func traced(ctx context.Context, r *mcp.CallToolRequest) context.Context {
	if r.Extra != nil {
		ctx = telemetry.Below(ctx, r.Extra.Header.Get(headerTrace))
	}
	named, _ := r.Params.Meta[metaTrace].(string)
	return telemetry.Below(ctx, named)
}

// dress adds what the SDK does not know to results of its own.
func (s *Server) dress(p peer, result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		return s.dressTools(p, r)
	case *mcp.InitializeResult:
		return withTasks(r)
	}
	return result, nil
}

// needsTasks refuses a request of a client that did not declare Tasks on it.
func needsTasks() error {
	return &jsonrpc.Error{
		Code: codeCapability, Message: "this needs the extension " + extension + ", declared on this request",
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extension + `":{}}}}`),
	}
}

// rpcError turns an error of the engine into one of the wire. What happened inside stays in the log.
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
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "not now: try again later"}
	}
	s.cfg.Log.Error("an MCP request failed", "error", err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}
