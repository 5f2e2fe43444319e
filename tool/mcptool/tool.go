package mcptool

import (
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

// Remote is a tool of an MCP server. Its result is the MCP result as it came.
type Remote struct {
	of      func(ctx context.Context, session perdure.SessionID) (*Client, error) // the connection that a session's calls go over
	handles Handles                                                               // nil: what a server makes of a call is not kept
	server  string                                                                // its name; empty: it is a proxy's only one
	def     *mcp.Tool
	spec    tool.Spec
}

var _ tool.Reattacher = (*Remote)(nil)

// Tools makes tools of a server's. Their names are the server's, with what a name may not have replaced; a server's hints do
// not choose a class (TL10). Of two whose names become one, the one that has it already is taken, else the first; the log says which is
// left out.
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
	told := map[string]bool{}
	for _, def := range defs {
		name := safeName(def.Name)
		if seen[name] != def.Name || told[name] {
			c.cfg.Log.Warn("a tool of the MCP server is left out: another one has its name", "tool", def.Name, "name", name)
			continue
		}
		told[name] = true
		class := c.cfg.Classes[def.Name]
		if class == "" {
			class = perdure.AtMostOnce
		}
		description := def.Description
		if strings.TrimSpace(description) == "" {
			description = "The tool " + def.Name + " of an MCP server."
		}
		all = append(all, &Remote{of: always(c), handles: c.cfg.Handles, def: def, spec: tool.Spec{
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

// always is the same connection for every session.
func always(c *Client) func(context.Context, perdure.SessionID) (*Client, error) {
	return func(context.Context, perdure.SessionID) (*Client, error) { return c, nil }
}

// connection is the one that a call goes over.
func (t *Remote) connection(ctx context.Context, call tool.Call) (*Client, error) {
	return t.of(ctx, call.Session)
}

// safeName is a server's name of a tool as ours may be.
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

// Definition is the tool as the server says it.
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
	return t.ask(ctx, asking{client, session, call, env})
}

// RunBackground calls the tool.
func (t *Remote) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	env.Sink = sink
	return t.Run(ctx, call, env)
}

// Reattach goes on with a call whose client died. As long as the same life of the server is kept, the same request is the
// same call: its answer is there, or comes, or it is only now sent. So it is for an agent that may be asked again, of a server that knows
// calls by their keys. Otherwise nobody knows what became of it.
func (t *Remote) Reattach(ctx context.Context, task perdure.Task, env tool.Env, sink tool.Sink) (tool.Result, bool) {
	reach := t.reached
	if t.spec.Agent && t.spec.Class.Repeatable() {
		reach = t.reachedAtLast
	}
	client, session, born, err := reach(ctx, env.Call, sink)
	if err != nil {
		return notSent(ctx, err), ctx.Err() == nil
	}
	same := !born.IsZero() && born.Before(task.StartedAt)
	if !same && !(t.spec.Agent && t.spec.Class.Repeatable() && knowsKeys(session)) {
		return tool.Result{}, true
	}
	env.Sink = sink
	return t.ask(ctx, asking{client, session, env.Call, env}), false
}

// reached is the connection that a call goes over.
func (t *Remote) reached(ctx context.Context, call tool.Call, _ tool.Sink) (*Client, *mcp.ClientSession, time.Time, error) {
	client, err := t.connection(ctx, call)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	session, born, err := client.connected(ctx)
	return client, session, born, err
}

// reachedAtLast is reached for a server that may be away: it is tried as long as the call may take.
func (t *Remote) reachedAtLast(ctx context.Context, call tool.Call, sink tool.Sink) (*Client, *mcp.ClientSession, time.Time, error) {
	for failures := 1; ; failures++ {
		client, session, born, err := t.reached(ctx, call, sink)
		if err == nil || ctx.Err() != nil {
			return client, session, born, err
		}
		sink.Status("The MCP server is away: " + err.Error())
		select {
		case <-time.After(perdure.RetryDelay(failures, 0, call.Key)):
		case <-ctx.Done():
		}
	}
}

// notSent is the result of a call that the server never got.
func notSent(ctx context.Context, err error) tool.Result {
	if ctx.Err() != nil {
		return tool.FromError(context.Cause(ctx))
	}
	return tool.Failf("The MCP server cannot be reached, and the call was not made: %v", err)
}

// asking is a call on its way.
type asking struct {
	client  *Client
	session *mcp.ClientSession
	call    tool.Call
	env     tool.Env
}

// ask sends the call and waits for its answer.
func (t *Remote) ask(ctx context.Context, a asking) tool.Result {
	id, call, session := wireID(a.call), a.call, a.session
	defer a.client.hears(id, a.env)()
	params := &mcp.CallToolParams{Meta: mcp.Meta{metaCall: id, metaKey: call.Key, "progressToken": id}, Name: t.def.Name, Arguments: call.Args}
	if a.env.Trace != "" {
		params.Meta[metaTrace] = a.env.Trace
	}
	a.client.listed(ctx, session)
	result, err := a.client.called(ctx, session, params)
	var refused *jsonrpc.Error
	if errors.As(err, &refused) && refused.Code == headerMismatch && a.client.toolsChanged() { // it was refused unseen
		a.client.listed(ctx, session)
		result, err = a.client.called(ctx, session, params)
	}
	var cannot *unread
	switch {
	case errors.As(err, &cannot):
		return t.unread(cannot)
	case err == nil && result.Meta[metaCreated] != nil:
		var created remoteTask
		if err := perdure.DecodeKnownJSON(mustJSON(result.Meta[metaCreated]), &created); err != nil || !usable(created.TaskID) {
			return lost(errors.New("it made a task without a handle that can be kept"))
		}
		return t.follow(ctx, call, a.env, a.env.Report(), created)
	case err == nil:
		exact(result, a.client.written(id))
		return t.result(result)
	case ctx.Err() != nil:
		return tool.FromError(context.Cause(ctx))
	case errors.As(err, &refused) && !errors.Is(err, mcp.ErrConnectionClosed):
		return tool.Failf("MCP error %d: %s", refused.Code, refused.Message)
	case t.spec.Class.Repeatable() && call.Execution < 3:
		return t.again(ctx, a, err)
	}
	return lost(err)
}

// unread is the result of a call that the server ended in a way that cannot be read. What has no effect has failed.
func (t *Remote) unread(why error) tool.Result {
	r := tool.Failf("The MCP server ended the call, and its answer cannot be read: %v", why)
	if t.spec.Class != perdure.Pure {
		r.ErrorAs = perdure.ErrorUnknown
	}
	return r
}

// called calls a tool. When ctx ends because somebody wants the call to end, the server is told; when only this process ends,
// it is not: the call goes on, and is found again. So it is when the connection is cut.
func (c *Client) called(ctx context.Context, session *mcp.ClientSession, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
	goesOn := false
	gone, answered := c.waits(session)
	defer func() {
		if !goesOn {
			answered()
			cancel()
		}
	}()
	came := make(chan answer, 1) // of one call, whoever waits for it
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
	if makesTasks(session) { // the answer that is on its way may be a task, which goes on unless it is canceled by its handle
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

// handleTime is how long a call that is to end is waited for by a server that may make it a task.
const handleTime = time.Second

// makesTasks reports a server that says it makes tasks of calls.
func makesTasks(session *mcp.ClientSession) bool {
	init := session.InitializeResult()
	return init != nil && init.Capabilities != nil && init.Capabilities.Extensions[extension] != nil
}

// knowsKeys reports a server that says that a call with the same key is the same call.
func knowsKeys(session *mcp.ClientSession) bool {
	init := session.InitializeResult()
	return init != nil && init.Capabilities != nil && init.Capabilities.Extensions[metaKey] != nil
}

// again sends a call that may run twice to the next life of its server.
func (t *Remote) again(ctx context.Context, a asking, lost error) tool.Result {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
		return tool.FromError(context.Cause(ctx))
	}
	session, _, err := a.client.connected(ctx)
	if err != nil {
		return tool.Failf("The MCP server was lost while the call ran, and cannot be reached again: %v", errors.Join(lost, err))
	}
	a.session = session
	a.call.Execution++
	return t.ask(ctx, a)
}

// result is what the server answered: as it came, and as a tool's error where it is one of text. A model is told every error as one:
// only the proxy's clients read it as it came.
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

// structuredError is an error with more than text. One that says of itself that nobody knows what happened is as unknown here, as the
// call's own.
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
		result.ErrorAs = perdure.ErrorUnknown
	}
	return result
}
