package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Remote is a tool of an MCP server. Its result is the MCP result, unchanged.
type Remote struct {
	// Returns the connection for the calls of a session.
	of func(ctx context.Context, session perdure.SessionID) (*Client, error)
	// Nil: handles of remote tasks are not stored.
	handles    Handles
	beforeCall func(ctx context.Context, env tool.Env) error // nil: nothing is done
	// Server name; empty: the only server of a proxy.
	server string
	def    *mcp.Tool
	spec   tool.Spec
}

var _ tool.Reattacher = (*Remote)(nil)

// Tools creates tools from the tools of a server. They keep the server's names as far as these are
// valid here; a server's hints do not determine an effect class (TL10). The log names a tool that
// is renamed or left out, and a class of a tool that the server does not have.
func Tools(ctx context.Context, c *Client) ([]*Remote, error) {
	defs, err := c.Definitions(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Remote
	for _, t := range named(defs, "", c.cfg.Log) {
		description := t.def.Description
		if strings.TrimSpace(description) == "" {
			description = "The tool " + t.def.Name + " of an MCP server."
		}
		all = append(all, &Remote{of: alwaysConnected(c), handles: c.cfg.Handles, def: t.def, spec: tool.Spec{
			// The server checks the arguments by its own schema, in its own words.
			Name: t.name, DisplayName: t.def.Title, Description: description, SoftBudget: tool.Never, Parameters: anyObject,
			Class: cmp.Or(c.cfg.Classes[t.def.Name], perdure.AtMostOnce),
		}})
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Classes)) {
		if !slices.ContainsFunc(defs, func(def *mcp.Tool) bool { return def.Name == name }) {
			c.cfg.Log.Warn("class without a tool: the MCP server has no tool of this name", "tool", name)
		}
	}
	return all, nil
}

// alwaysConnected returns the same connection for every session.
func alwaysConnected(c *Client) func(context.Context, perdure.SessionID) (*Client, error) {
	return func(context.Context, perdure.SessionID) (*Client, error) { return c, nil }
}

// connection returns the connection for a call.
func (t *Remote) connection(ctx context.Context, call tool.Call) (*Client, error) {
	return t.of(ctx, ConnectionOf(call))
}

// ConnectionOf returns the name of the connection that a call uses, as ServerConfig.Open gets it:
// its session. The calls of a user outside any session have one of their own, because a connection
// may carry the credentials of its user.
func ConnectionOf(call tool.Call) perdure.SessionID {
	if call.Session != "" {
		return call.Session
	}
	return perdure.SessionID(fmt.Sprintf("outside %q %q", call.Org, call.User)) // unambiguous, whatever the names contain
}

// Spec implements tool.Tool.
func (t *Remote) Spec() tool.Spec { return t.spec }

// Definition returns the tool as described by the server.
func (t *Remote) Definition() *mcp.Tool { return t.def }

// Run calls the tool.
func (t *Remote) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	return t.RunAfter(ctx, call, env, func() (tool.Result, bool) { return tool.Result{}, true })
}

// RunAfter calls the tool after a step that must not be taken in vain, such as a payment: the call
// has its credentials and a connection by then, and is sent next. If the step returns false, its
// result is that of the call, which is not sent.
func (t *Remote) RunAfter(ctx context.Context, call tool.Call, env tool.Env, step func() (tool.Result, bool)) tool.Result {
	if err := t.prepareCall(ctx, env); err != nil {
		r := tool.FromError(err)
		r.Refused = r.IsError()
		return r
	}
	client, err := t.connection(ctx, call)
	if err != nil {
		return notSent(ctx, err)
	}
	session, _, err := client.connected(ctx)
	if err != nil {
		return notSent(ctx, err)
	}
	if result, ok := step(); !ok {
		return result
	}
	return t.ask(ctx, callAttempt{client, session, call, env})
}

// RunBackground calls the tool.
func (t *Remote) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	env.Sink = sink
	return t.Run(ctx, call, env)
}

// Reattach continues a call whose client crashed. If the same server process is still running
// behind its broker, sending the same request again is the same call: its answer is stored, or will
// come, or the call is sent only now. The same holds for a repeatable external agent on a server
// that recognises calls by their keys. Otherwise the outcome is unknown.
func (t *Remote) Reattach(ctx context.Context, task perdure.Task, env tool.Env, sink tool.Sink) (tool.Result, bool) {
	_ = t.prepareCall(ctx, env) // without it the server refuses the request, and the call is known to have been sent
	reach := t.connect
	if t.spec.ExternalAgent && t.spec.Class.Repeatable() {
		reach = t.connectRetrying
	}
	client, session, serverStarted, err := reach(ctx, env.Call, sink)
	if err != nil {
		t.cancelByKey(ctx, env.Call, sink)
		return notSent(ctx, err), ctx.Err() == nil
	}
	same := !serverStarted.IsZero() && serverStarted.Before(task.StartedAt)
	if !same && !(t.spec.ExternalAgent && t.spec.Class.Repeatable() && knowsKeys(session)) {
		return tool.Result{}, true
	}
	env.Sink = sink
	return t.ask(ctx, callAttempt{client, session, env.Call, env}), false
}

// prepareCall calls BeforeCall.
func (t *Remote) prepareCall(ctx context.Context, env tool.Env) error {
	if t.beforeCall == nil {
		return nil
	}
	return t.beforeCall(ctx, env)
}

// connect returns the connection for a call.
func (t *Remote) connect(ctx context.Context, call tool.Call, _ tool.Sink) (*Client, *mcp.ClientSession, time.Time, error) {
	client, err := t.connection(ctx, call)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	session, serverStarted, err := client.connected(ctx)
	return client, session, serverStarted, err
}

// connectRetrying is like reached, but keeps trying while the server is unavailable, for as long as
// the call may run.
func (t *Remote) connectRetrying(ctx context.Context, call tool.Call, sink tool.Sink) (*Client, *mcp.ClientSession, time.Time, error) {
	for failures := 1; ; failures++ {
		client, session, serverStarted, err := t.connect(ctx, call, sink)
		if err == nil || ctx.Err() != nil {
			return client, session, serverStarted, err
		}
		sink.Status("The MCP server is unavailable: " + err.Error())
		select {
		case <-time.After(perdure.RetryDelay(failures, 0, call.Key)):
		case <-ctx.Done():
		}
	}
}

// notSent returns the result of a call that was never sent.
func notSent(ctx context.Context, err error) tool.Result {
	if ctx.Err() != nil {
		return tool.FromError(context.Cause(ctx))
	}
	return tool.Failf("The MCP server cannot be reached; the call was not made: %v", err)
}

// callAttempt is a call to be sent.
type callAttempt struct {
	client  *Client
	session *mcp.ClientSession
	call    tool.Call
	env     tool.Env
}

// ask sends the call and waits for its answer.
func (t *Remote) ask(ctx context.Context, a callAttempt) tool.Result {
	id, call, session := wireID(a.call), a.call, a.session
	defer a.client.handleNotification(id, a.env)()
	params := t.params(call)
	params.Meta["progressToken"] = id
	if a.env.Trace != "" {
		params.Meta[metaTrace] = a.env.Trace
	}
	a.client.listed(ctx, session)
	result, err := a.client.called(ctx, session, params)
	var refused *jsonrpc.Error
	// Refused without being processed.
	if errors.As(err, &refused) && refused.Code == headerMismatch && a.client.toolsChanged() {
		a.client.listed(ctx, session)
		result, err = a.client.called(ctx, session, params)
	}
	var notRun *refusal
	if errors.As(asRefusal(err), &notRun) && notRun.lost && ctx.Err() == nil {
		if session, _, err = a.client.connected(ctx); err != nil { // a new session
			return notSent(ctx, err)
		}
		result, err = a.client.called(ctx, session, params)
	}
	switch {
	case errors.As(asRefusal(err), &notRun):
		return notRunResult(notRun)
	case err == nil && result.Meta[metaCreated] != nil:
		created, err := createdTask(result)
		if err != nil {
			return unknownOutcome(err)
		}
		return t.follow(ctx, call, a.env, a.env.Report(), created)
	case err == nil:
		if written := a.client.requestWritten(id); written != nil {
			result = lenientResult(written)
		}
		return t.result(call, result)
	case ctx.Err() != nil:
		t.cancelByKey(ctx, call, a.env.Report())
		return tool.FromError(context.Cause(ctx))
	case errors.As(err, &refused) && !errors.Is(err, mcp.ErrConnectionClosed) && refused.Code != codeRejected:
		return tool.Failf("MCP error %d: %s", refused.Code, refused.Message)
	case t.spec.Class.Repeatable() && call.Execution < 3:
		return t.retryResult(ctx, a, err)
	}
	return unknownOutcome(err)
}

// params returns the parameters of a call.
func (t *Remote) params(call tool.Call) *mcp.CallToolParams {
	return &mcp.CallToolParams{Meta: mcp.Meta{metaCall: wireID(call), metaKey: call.Key}, Name: t.def.Name, Arguments: call.Args}
}

// codeRejected is the code that the SDK gives to a request whose response of HTTP failed. It is no
// answer of the server.
const codeRejected = -32005

// notRunResult returns the result of a call that HTTP refused before it ran.
func notRunResult(why *refusal) tool.Result {
	if why.lost {
		return tool.Failf("The MCP server refused the call, which did not run: it does not know the session, and refused a new one, too (%v).", why)
	}
	return tool.Failf("The MCP server refused the call, which did not run: %v", why)
}

// called sends a call. If ctx ends because the call is to end, the server receives a cancel. If
// only this process is stopping, or the connection is cut, the call continues and is found again
// later.
func (c *Client) called(ctx context.Context, session *mcp.ClientSession, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
	goesOn := false
	gone, answered := c.waitFor(session)
	defer func() {
		if !goesOn {
			answered()
			cancel()
		}
	}()
	came := make(chan answer, 1) // for the one answer, even if nobody waits for it any more
	go func() {                  // until the answer, the cancel, or the end of the connection
		r, err := session.CallTool(asked, params)
		select {
		case <-gone:
			if err != nil {
				err = fmt.Errorf("%w: %w", mcp.ErrConnectionClosed, err)
			}
		default:
		}
		cancel()
		came <- answer{r, err}
	}()
	go func() { // likewise
		select {
		case <-gone:
			cancel()
		case <-asked.Done():
		}
	}()
	select {
	case a := <-came:
		return a.result, a.err
	case <-ctx.Done():
	}
	if cause := perdure.CauseOf(ctx); cause == perdure.CauseShutdown || cause == perdure.CauseSuperseded {
		goesOn = true
		return nil, context.Cause(ctx)
	}
	// The answer in transit may be a task, which continues unless it is canceled through its
	// handle.
	if makesTasks(session) {
		select {
		case a := <-came:
			return a.result, a.err
		case <-time.After(handleTime):
		}
	}
	cancel()
	a := <-came
	return a.result, a.err
}

// handleTime is how long an ending call waits for the handle from a server that may turn it into a
// task.
const handleTime = time.Second

// makesTasks reports whether a server declares that it turns calls into tasks.
func makesTasks(session *mcp.ClientSession) bool {
	init := session.InitializeResult()
	return init != nil && init.Capabilities != nil && init.Capabilities.Extensions[extension] != nil
}

// knowsKeys reports whether a server declares that calls with the same key are the same call.
func knowsKeys(session *mcp.ClientSession) bool {
	init := session.InitializeResult()
	return init != nil && init.Capabilities != nil && init.Capabilities.Extensions[metaKey] != nil
}

// retryResult sends a repeatable call to a new server process.
func (t *Remote) retryResult(ctx context.Context, a callAttempt, lost error) tool.Result {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
		return tool.FromError(context.Cause(ctx))
	}
	session, _, err := a.client.connected(ctx)
	if err != nil {
		return tool.Failf("The connection to the MCP server was lost while the call was running, and the server cannot be reached again: %v", errors.Join(lost, err))
	}
	a.session = session
	a.call.Execution++
	return t.ask(ctx, a)
}

// result converts the server's result. For clients of the proxy it stays as it is, except that an
// error of text only becomes a tool error. A model gets every error as a tool error, and content of
// each kind as what it is.
func (t *Remote) result(call tool.Call, r *mcp.CallToolResult) tool.Result {
	if t.server != "" {
		return resultForModel(call, r)
	}
	if text, only := textOnly(r); r.IsError && r.StructuredContent == nil && only {
		return tool.Error(text)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return tool.Internal(err)
	}
	return tool.Success(json.RawMessage(text))
}

// textOnly returns the text of a result, and whether it has nothing but text that is not blank.
func textOnly(r *mcp.CallToolResult) (text string, only bool) {
	var texts []string
	for _, c := range r.Content {
		if block, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, block.Text)
		}
	}
	text = strings.Join(texts, "\n")
	return text, len(texts) == len(r.Content) && strings.TrimSpace(text) != ""
}
