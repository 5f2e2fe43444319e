package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	handles Handles
	// Server name; empty: the only server of a proxy.
	server string
	def    *mcp.Tool
	spec   tool.Spec
}

var _ tool.Reattacher = (*Remote)(nil)

// Tools creates tools from the tools of a server. They keep the server's names, with invalid
// characters replaced; a server's hints do not determine an effect class (TL10). If two names
// become equal, the tool whose name was not changed wins, else the first; the log names the one
// that is left out.
func Tools(ctx context.Context, c *Client) ([]*Remote, error) {
	defs, err := c.Definitions(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for _, def := range defs {
		if name := safeName(def.Name); seen[name] == "" || name == def.Name {
			seen[name] = def.Name
		}
	}
	var all []*Remote
	used := map[string]bool{}
	for _, def := range defs {
		name := safeName(def.Name)
		if seen[name] != def.Name || used[name] {
			c.cfg.Log.Warn("MCP tool left out: duplicate name", "tool", def.Name, "name", name)
			continue
		}
		used[name] = true
		class := c.cfg.Classes[def.Name]
		class = cmp.Or(class, perdure.AtMostOnce)
		description := def.Description
		if strings.TrimSpace(description) == "" {
			description = "The tool " + def.Name + " of an MCP server."
		}
		all = append(all, &Remote{of: alwaysConnected(c), handles: c.cfg.Handles, def: def, spec: tool.Spec{
			// The server checks the arguments by its own schema, in its own words.
			Name: name, DisplayName: def.Title, Description: description, Class: class, SoftBudget: tool.Never, Parameters: json.RawMessage(`{"type":"object"}`),
		}})
	}
	for name := range c.cfg.Classes {
		if seen[safeName(name)] != name {
			return nil, fmt.Errorf("%w class: the MCP server has no tool %q", perdure.Invalid, name)
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
	return t.of(ctx, call.Session)
}

// safeName converts a server's tool name to a valid one.
func safeName(name string) string {
	name = strings.Map(safeRune, name)
	return name[:min(len(name), 64)]
}

func safeRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

// Spec implements tool.Tool.
func (t *Remote) Spec() tool.Spec { return t.spec }

// Definition returns the tool as described by the server.
func (t *Remote) Definition() *mcp.Tool { return t.def }

// Run calls the tool.
func (t *Remote) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	client, err := t.connection(ctx, call)
	if err != nil {
		return notSent(ctx, err)
	}
	session, _, err := client.connected(ctx)
	if err != nil {
		return notSent(ctx, err)
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
	reach := t.connect
	if t.spec.ExternalAgent && t.spec.Class.Repeatable() {
		reach = t.connectRetrying
	}
	client, session, serverStarted, err := reach(ctx, env.Call, sink)
	if err != nil {
		return notSent(ctx, err), ctx.Err() == nil
	}
	same := !serverStarted.IsZero() && serverStarted.Before(task.StartedAt)
	if !same && !(t.spec.ExternalAgent && t.spec.Class.Repeatable() && knowsKeys(session)) {
		return tool.Result{}, true
	}
	env.Sink = sink
	return t.ask(ctx, callAttempt{client, session, env.Call, env}), false
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
	params := &mcp.CallToolParams{Meta: mcp.Meta{metaCall: id, metaKey: call.Key, "progressToken": id}, Name: t.def.Name, Arguments: call.Args}
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
	var cannot *unread
	switch {
	case errors.As(err, &cannot):
		return t.unread(cannot)
	case err == nil && result.Meta[metaCreated] != nil:
		var created remoteTask
		if err := perdure.DecodeKnownJSON(mustJSON(result.Meta[metaCreated]), &created); err != nil || !isValidTaskID(created.TaskID) {
			return unknownOutcome(errors.New("the server created a task with an unusable id"))
		}
		return t.follow(ctx, call, a.env, a.env.Report(), created)
	case err == nil:
		exact(result, a.client.requestWritten(id))
		return t.result(result)
	case ctx.Err() != nil:
		return tool.FromError(context.Cause(ctx))
	case errors.As(err, &refused) && !errors.Is(err, mcp.ErrConnectionClosed):
		return tool.Failf("MCP error %d: %s", refused.Code, refused.Message)
	case t.spec.Class.Repeatable() && call.Execution < 3:
		return t.retryResult(ctx, a, err)
	}
	return unknownOutcome(err)
}

// unread returns the result of a call whose answer cannot be parsed. A pure call has failed; the
// outcome of any other is unknown.
func (t *Remote) unread(why error) tool.Result {
	r := tool.Failf("The MCP server ended the call with an invalid answer: %v", why)
	if t.spec.Class != perdure.Pure {
		r.ErrorKind = perdure.ErrorUnknown
	}
	return r
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

// result converts the server's result. It stays as it is, except that an error of text only becomes
// a tool error. A model gets every error as a tool error; only clients of the proxy get it
// unchanged.
func (t *Remote) result(r *mcp.CallToolResult) tool.Result {
	if r.IsError && t.server != "" && r.StructuredContent != nil {
		return structuredError(r)
	}
	if r.IsError && r.StructuredContent == nil {
		var texts []string
		for _, c := range r.Content {
			text, ok := c.(*mcp.TextContent)
			if !ok {
				texts = nil
				break
			}
			texts = append(texts, text.Text)
		}
		if len(texts) > 0 && strings.TrimSpace(strings.Join(texts, "\n")) != "" {
			return tool.Error(strings.Join(texts, "\n"))
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return tool.Internal(err)
	}
	return tool.Success(json.RawMessage(text))
}

// structuredError converts an error with structured content. If the error says that its outcome is
// unknown, so is the outcome of the call.
func structuredError(r *mcp.CallToolResult) tool.Result {
	var texts []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok && strings.TrimSpace(text.Text) != "" {
			texts = append(texts, text.Text)
		}
	}
	structured := mustJSON(r.StructuredContent)
	if len(texts) == 0 {
		texts = append(texts, string(structured))
	}
	result := tool.Error(strings.Join(texts, "\n"))
	var says struct {
		Outcome string `json:"outcome"`
	}
	if perdure.DecodeKnownJSON(structured, &says) == nil && says.Outcome == "unknown" {
		result.ErrorKind = perdure.ErrorUnknown
	}
	return result
}
