package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Handle is what is kept of a call that a server made a task: enough to find it again after this process died.
type Handle struct {
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool"`
	TaskID string `json:"task_id"`
	Every  int64  `json:"poll_interval_ms,omitempty"`
	// Asked is what the task asked so far, in order: each question is put once, whoever follows the task by then.
	Asked []Asked `json:"asked,omitempty"`
}

// Asked is a question of a remote task.
type Asked struct {
	Key    string          `json:"key"`
	Prompt string          `json:"prompt"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Handles keeps handles with their calls. It is safe for concurrent use.
type Handles interface {
	// Keep is durable when it returns.
	Keep(ctx context.Context, call tool.Call, h Handle) error
	// Kept returns what is kept of a call; not found: nothing is.
	Kept(ctx context.Context, call tool.Call) (h Handle, found bool, err error)
	// End notes that the task is over. It is still found, since its result may be lost with this process before it is recorded.
	End(ctx context.Context, call tool.Call) error
	// Forget removes it.
	Forget(ctx context.Context, call tool.Call) error
}

// The bounds of polling.
const (
	pollDefault = time.Second
	pollLeast   = 100 * time.Millisecond
	pollMost    = time.Minute
	cancelTime  = 10 * time.Second
	cancelEach  = 2 * time.Second // that one word of it may take: a server that says nothing is told again
	maxTaskID   = 512             // bytes
)

// usable reports whether a task's id can be kept and named in a header: printable, of a size.
func usable(id string) bool {
	return id != "" && len(id) <= maxTaskID && !strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' })
}

// remoteTask is what a server says of its task.
type remoteTask struct {
	mcp.ResultBase
	TaskID        string                     `json:"taskId"`
	Status        string                     `json:"status"`
	StatusMessage string                     `json:"statusMessage"`
	Every         int64                      `json:"pollIntervalMs"`
	Result        json.RawMessage            `json:"result"`
	Error         *jsonrpc.Error             `json:"error"`
	Requests      map[string]json.RawMessage `json:"inputRequests"`
}

// taskParams is what the methods of tasks are given.
type taskParams struct {
	mcp.ParamsBase
	TaskID    string         `json:"taskId"`
	Responses map[string]any `json:"inputResponses,omitempty"`
}

// empty is an acknowledgement.
type empty struct{ mcp.ResultBase }

// knowTasks lets a client ask after tasks.
func knowTasks(c *mcp.Client) error {
	return errors.Join(
		mcp.AddSendingCustomMethod[*taskParams, *remoteTask](c, methodGet),
		mcp.AddSendingCustomMethod[*taskParams, *empty](c, methodUpdate),
		mcp.AddSendingCustomMethod[*taskParams, *empty](c, methodCancel),
	)
}

var (
	_ tool.Survivor = (*Remote)(nil)
	_ tool.Cleaner  = (*Remote)(nil)
)

// Prepare implements tool.Survivor: there is nothing to prepare.
func (t *Remote) Prepare(context.Context, tool.Call) error { return nil }

// Look implements tool.Survivor: a call whose handle is kept goes on with its server.
func (t *Remote) Look(ctx context.Context, call tool.Call) (perdure.Remains, error) {
	if t.handles == nil {
		return perdure.RemainsNone, nil
	}
	_, found, err := t.handles.Kept(ctx, call)
	if err != nil || !found {
		return perdure.RemainsNone, err
	}
	return perdure.RemainsAlive, nil
}

// Adopt implements tool.Survivor. Whoever wants the call to end may have said so already: the server is told all the same.
func (t *Remote) Adopt(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	h, found, err := t.handles.Kept(context.WithoutCancel(ctx), call)
	switch {
	case err != nil:
		return tool.Internal(fmt.Errorf("find the remote task: %w", err))
	case !found:
		return lost(errors.New("its handle is gone"))
	}
	f := &following{Remote: t, call: call, env: env, sink: sink, handle: h}
	return f.toTheEnd(ctx)
}

// Stop implements tool.Survivor.
func (t *Remote) Stop(ctx context.Context, call tool.Call) error {
	if t.handles == nil {
		return nil
	}
	h, found, err := t.handles.Kept(ctx, call)
	if err != nil || !found {
		return err
	}
	f := &following{Remote: t, call: call, handle: h}
	stopping, end := context.WithTimeout(ctx, cancelTime)
	defer end()
	if err := f.cancel(stopping); err != nil {
		return err
	}
	return t.handles.End(ctx, call)
}

// Clean implements tool.Cleaner.
func (t *Remote) Clean(ctx context.Context, call tool.Call) error {
	if t.handles == nil {
		return nil
	}
	return t.handles.Forget(ctx, call)
}

// lost is the result of a call of which nobody knows what became.
func lost(err error) tool.Result {
	r := tool.Failf("The MCP server was lost while the call ran: %v", err)
	r.ErrorAs = perdure.ErrorUnknown
	return r
}

// following is a call that is a task of its server.
type following struct {
	*Remote
	call   tool.Call
	env    tool.Env
	sink   tool.Sink
	handle Handle
	put    int // questions of the handle that were put in this attempt
	polls  int // how often it was asked after in this attempt
	linked bool
}

// follow follows a call that has just become a task. Its handle is kept before anything is asked of it.
func (t *Remote) follow(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink, created remoteTask) tool.Result {
	f := &following{Remote: t, call: call, env: env, sink: sink, handle: Handle{Server: t.server, Tool: t.def.Name, TaskID: created.TaskID, Every: created.Every}}
	if t.handles != nil {
		if err := t.handles.Keep(context.WithoutCancel(ctx), call, f.handle); err != nil {
			f.letGo(ctx)
			return lost(fmt.Errorf("its task cannot be kept: %w", err))
		}
	}
	return f.toTheEnd(ctx)
}

// link notes the remote task on ours, in an attempt before anything else of it is done (SA13).
func (f *following) link(ctx context.Context) error {
	if f.linked || f.env.Remote == nil {
		return nil
	}
	err := f.env.Remote.Link(ctx, f.handle.TaskID)
	f.linked = err == nil
	return err
}

// toTheEnd polls until the task has ended, or ctx ends. A server that is away is asked again, as long as the call may take.
func (f *following) toTheEnd(ctx context.Context) tool.Result {
	failures := 0
	if err := f.link(ctx); err != nil {
		f.sink.Status("The remote task is not noted yet: " + err.Error())
	}
	for {
		if err := f.pause(ctx, failures); err != nil {
			return f.left(ctx)
		}
		if err := f.link(ctx); err != nil { // no poll before it; whose task is another's by now ends by its context
			failures++
			continue
		}
		now, err := f.get(ctx)
		var refused *jsonrpc.Error
		switch {
		case ctx.Err() != nil:
			return f.left(ctx)
		case errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams: // it knows nothing of it any more
			return f.ended(ctx, lost(err))
		case err != nil:
			failures++
			f.sink.Status("The MCP server is away: " + err.Error())
			continue
		}
		failures = 0
		if now.Every > 0 {
			f.handle.Every = now.Every
		}
		if result, done := f.step(ctx, now); done {
			if ctx.Err() != nil && now.Status == "input_required" {
				return f.left(ctx)
			}
			return f.ended(ctx, result)
		}
	}
}

// step looks at what the server said.
func (f *following) step(ctx context.Context, now *remoteTask) (result tool.Result, done bool) {
	f.sink.Heartbeat()
	switch now.Status {
	case "completed":
		var r mcp.CallToolResult
		if err := perdure.DecodeKnownJSON(now.Result, &r); err != nil {
			return tool.Failf("The MCP server's result is none: %v", err), true
		}
		exact(&r, now.Result)
		return f.result(&r), true
	case "failed":
		if now.Error != nil {
			return tool.Failf("MCP error %d: %s", now.Error.Code, now.Error.Message), true
		}
		return tool.Error("The MCP server's task failed: " + now.StatusMessage), true
	case "cancelled":
		return tool.Error("The MCP server canceled the task. " + now.StatusMessage), true
	case "input_required":
		return f.input(ctx, now)
	}
	if now.StatusMessage != "" {
		f.sink.Status(now.StatusMessage)
	}
	return tool.Result{}, false
}

// pause waits until the task may be asked after again: as the server asked for, and longer while it does not answer. No two calls
// that began together go on together.
func (f *following) pause(ctx context.Context, failures int) error {
	every := pollDefault
	if f.handle.Every > 0 {
		every = time.Duration(f.handle.Every) * time.Millisecond
	}
	wait := min(max(every, pollLeast), pollMost)
	f.polls++
	wait += wait * time.Duration(jitter(f.call.Key, f.polls)) / 1000
	if failures > 0 {
		wait = max(wait, perdure.RetryDelay(min(failures, 6), 0, f.call.Key))
	}
	if client, err := f.connection(ctx, f.call); err == nil {
		wait = max(wait, client.alone())
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxJitter is the most that a pause is longer than it was asked for, in thousandths.
const maxJitter = 200

// jitter is how much longer one pause of a call is, in thousandths: the same for the same call.
func jitter(key string, poll int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", key, poll)
	return h.Sum32() % maxJitter
}

// say asks the server something about the task. A server that does not answer is not waited for: it is asked again.
func say[R mcp.Result](ctx context.Context, f *following, method string, p *taskParams) (said R, err error) {
	client, err := f.connection(ctx, f.call)
	if err != nil {
		return said, err
	}
	ctx, cancel := context.WithTimeout(ctx, client.cfg.Patience)
	defer cancel()
	session, _, err := client.connected(ctx)
	if err != nil {
		return said, err
	}
	return mcp.CallCustomMethod[*taskParams, R](ctx, session, method, p)
}

func (f *following) get(ctx context.Context) (*remoteTask, error) {
	now, err := say[*remoteTask](ctx, f, methodGet, &taskParams{TaskID: f.handle.TaskID})
	if err == nil && now.TaskID != f.handle.TaskID { // what it says is of a task that is none of ours
		return nil, fmt.Errorf("it was asked after the task %s, and speaks of %.80q", f.handle.TaskID, now.TaskID)
	}
	return now, err
}

// left is the end of the wait before the task's end: it is told when somebody wants the call to end, and goes on when only this
// process ends.
func (f *following) left(ctx context.Context) tool.Result {
	if cause := perdure.CauseOf(ctx); cause != perdure.CauseShutdown && cause != perdure.CauseSuperseded {
		f.letGo(ctx)
	}
	return tool.FromError(context.Cause(ctx))
}

// letGo cancels the task. Who cannot be told within the grace hears nothing: the call has ended here, and its handle stays
// among what is at work.
func (f *following) letGo(ctx context.Context) {
	stopping, end := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer end()
	if err := f.cancel(stopping); err != nil {
		f.sink.Status("The MCP server was not told that its task is canceled: " + err.Error())
		return
	}
	f.ended(stopping, tool.Result{})
}

// cancel tells the server until it has heard it, or ctx ends. A task that it does not know any more needs no cancel.
func (f *following) cancel(ctx context.Context) error {
	for failures := 1; ; failures++ {
		told, end := context.WithTimeout(ctx, cancelEach)
		_, err := say[*empty](told, f, methodCancel, &taskParams{TaskID: f.handle.TaskID})
		end()
		var refused *jsonrpc.Error
		if err == nil || errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams {
			return nil
		}
		select {
		case <-time.After(perdure.RetryDelay(failures, 0, f.call.Key) / 2):
		case <-ctx.Done():
			return err
		}
	}
}

// ended notes that the task is over.
func (f *following) ended(ctx context.Context, r tool.Result) tool.Result {
	if f.handles != nil {
		_ = f.handles.End(context.WithoutCancel(ctx), f.call) // it is what people are shown
	}
	return r
}

// request is a question of a server.
type request struct {
	Method string `json:"method"`
	Params struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	} `json:"params"`
}

// input puts what the task asks to people, and hands their answers on. Done: it cannot be answered here.
func (f *following) input(ctx context.Context, now *remoteTask) (result tool.Result, done bool) {
	known := map[string]bool{}
	for _, q := range f.handle.Asked {
		known[q.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(now.Requests)) {
		if known[key] {
			continue
		}
		var r request
		if err := perdure.DecodeKnownJSON(now.Requests[key], &r); err != nil || r.Method != "elicitation/create" {
			f.letGo(ctx)
			return tool.Failf("The MCP server's task asks for %s, which is not handed on: the task was canceled.", r.Method), true
		}
		f.handle.Asked = append(f.handle.Asked, Asked{Key: key, Prompt: r.Params.Message, Schema: r.Params.Schema})
	}
	if f.handles != nil {
		if err := f.handles.Keep(ctx, f.call, f.handle); err != nil {
			return tool.Result{}, false // with the next poll
		}
	}
	responses := map[string]any{}
	for ; f.put < len(f.handle.Asked); f.put++ {
		q := f.handle.Asked[f.put]
		said, err := ask(ctx, f.env, q)
		if err != nil {
			if ctx.Err() == nil {
				f.letGo(ctx)
			}
			return tool.Failf("The MCP server's task asks %q, and nobody can be asked here: %v", q.Prompt, err), true
		}
		if _, open := now.Requests[q.Key]; open {
			responses[q.Key] = said
		}
	}
	if len(responses) == 0 {
		return tool.Result{}, false
	}
	if _, err := say[*empty](ctx, f, methodUpdate, &taskParams{TaskID: f.handle.TaskID, Responses: responses}); err != nil {
		f.put = 0 // what was answered is answered at once, and sent again
	}
	return tool.Result{}, false
}

// ask puts one question, and returns the answer as the wire has it.
func ask(ctx context.Context, env tool.Env, q Asked) (map[string]any, error) {
	if env.Dialog == nil {
		return nil, perdure.Conflict
	}
	reply, err := env.Dialog.Ask(ctx, tool.Question{Prompt: q.Prompt, Expected: q.Schema})
	if err != nil {
		return nil, err
	}
	content := json.RawMessage(reply.Data)
	if len(content) == 0 {
		content = mustJSON(map[string]string{"answer": reply.Text})
	}
	return map[string]any{"action": "accept", "content": content}, nil
}
