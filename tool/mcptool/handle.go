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

// Handle is the stored record of a call that a server turned into a task. It is enough to find the
// task again from another process.
type Handle struct {
	Server       string `json:"server,omitempty"`
	Tool         string `json:"tool"`
	TaskID       string `json:"task_id"`
	PollInterval int64  `json:"poll_interval_ms,omitempty"`
	// OpenQuestion lists the questions of the task so far, in order: each is asked once, in
	// whichever process the task is followed.
	OpenQuestion []OpenQuestion `json:"asked,omitempty"`
}

// OpenQuestion is a question of a remote task.
type OpenQuestion struct {
	Key    string          `json:"key"`
	Prompt string          `json:"prompt"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Handles stores handles with their calls. It is safe for concurrent use.
type Handles interface {
	// Store stores a handle; it is durable when Keep returns.
	Store(ctx context.Context, call tool.Call, h Handle) error
	// Stored returns the handle of a call; found is false if there is none.
	Stored(ctx context.Context, call tool.Call) (h Handle, found bool, err error)
	// End records that the task has ended. The handle is still found, because this process may
	// crash before the result is recorded.
	End(ctx context.Context, call tool.Call) error
	// Forget removes the handle.
	Forget(ctx context.Context, call tool.Call) error
}

// The limits of polling and cancelling.
const (
	pollDefault = time.Second
	minPoll     = 100 * time.Millisecond
	maxPoll     = time.Minute
	cancelTime  = 10 * time.Second
	cancelRetry = 2 * time.Second // timeout of one cancel request; after it the request is sent again
	maxTaskID   = 512             // bytes
)

// isValidTaskID reports whether a task's id can be stored and sent in a header: printable ASCII
// within the maximum length.
func isValidTaskID(id string) bool {
	return id != "" && len(id) <= maxTaskID && !strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' })
}

// remoteTask is a task as reported by a server.
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

// taskParams are the parameters of the task methods.
type taskParams struct {
	mcp.ParamsBase
	TaskID    string         `json:"taskId"`
	Responses map[string]any `json:"inputResponses,omitempty"`
}

// empty is an acknowledgement.
type empty struct{ mcp.ResultBase }

// knowTasks registers the task methods with a client.
func knowTasks(c *mcp.Client) error {
	return errors.Join(
		mcp.AddSendingCustomMethod[*taskParams, *remoteTask](c, methodGet),
		mcp.AddSendingCustomMethod[*taskParams, *empty](c, methodUpdate),
		mcp.AddSendingCustomMethod[*taskParams, *empty](c, methodCancel),
	)
}

var (
	_ tool.AdoptableAnywhere = (*Remote)(nil)
	_ tool.Cleaner           = (*Remote)(nil)
)

// AdoptableAnywhere implements tool.AdoptableAnywhere: the handle is in the store.
func (t *Remote) AdoptableAnywhere() {}

// Prepare implements tool.Adoptable: there is nothing to prepare.
func (t *Remote) Prepare(context.Context, tool.Call) error { return nil }

// Inspect implements tool.Adoptable: a call with a stored handle continues at its server.
func (t *Remote) Inspect(ctx context.Context, call tool.Call) (perdure.ExecutionRemains, error) {
	if t.handles == nil {
		return perdure.RemainsNone, nil
	}
	_, found, err := t.handles.Stored(ctx, call)
	if err != nil || !found {
		return perdure.RemainsNone, err
	}
	return perdure.RemainsAlive, nil
}

// Adopt implements tool.Adoptable. ctx may already have ended with a cancel; the server receives
// the cancel all the same.
func (t *Remote) Adopt(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	h, found, err := t.handles.Stored(context.WithoutCancel(ctx), call)
	switch {
	case err != nil:
		return tool.Internal(fmt.Errorf("find the remote task: %w", err))
	case !found:
		return unknownOutcome(errors.New("the handle of its task no longer exists"))
	}
	_ = t.prepareCall(context.WithoutCancel(ctx), env) // without it the server refuses the requests, which is reported
	f := &followedTask{Remote: t, call: call, env: env, sink: sink, handle: h}
	return f.untilEnd(ctx)
}

// Stop implements tool.Adoptable.
func (t *Remote) Stop(ctx context.Context, call tool.Call) error {
	if t.handles == nil {
		return nil
	}
	stopping, end := context.WithTimeout(ctx, cancelTime)
	defer end()
	h, found, err := t.handles.Stored(ctx, call)
	if err == nil && !found {
		h, found, err = t.findByKey(stopping, call, tool.Env{}.Report())
	}
	if err != nil || !found {
		return err
	}
	f := &followedTask{Remote: t, call: call, handle: h}
	if err := f.cancel(stopping); err != nil {
		return err
	}
	return t.handles.End(ctx, call)
}

// cancelByKey cancels the remote task of a call that ctx ended before its handle was known here. If
// only this process is stopping, the task continues.
func (t *Remote) cancelByKey(ctx context.Context, call tool.Call, sink tool.Sink) {
	cause := perdure.CauseOf(ctx)
	if ctx.Err() == nil || cause == perdure.CauseShutdown || cause == perdure.CauseSuperseded || t.handles == nil {
		return
	}
	if err := t.Stop(context.WithoutCancel(ctx), call); err != nil {
		sink.Status("The cancel could not be sent to the MCP server: " + err.Error())
	}
}

// findByKey asks the server for the remote task of a call that was sent before. Sending a call
// again starts no second task at a server that recognises calls by their keys. From other servers,
// and for tools that are not repeatable agents, found is false.
func (t *Remote) findByKey(ctx context.Context, call tool.Call, sink tool.Sink) (h Handle, found bool, err error) {
	if !t.spec.ExternalAgent || !t.spec.Class.Repeatable() {
		return h, false, nil
	}
	client, session, _, err := t.connectRetrying(ctx, call, sink)
	if err != nil || !knowsKeys(session) {
		return h, false, err
	}
	client.listed(ctx, session)
	result, err := client.called(ctx, session, t.params(call))
	if err != nil || result.Meta[metaCreated] == nil {
		return h, false, err // ended already, or refused
	}
	created, err := createdTask(result)
	if err != nil {
		return h, false, err
	}
	h = t.handleOf(created)
	_ = t.handles.Store(ctx, call, h) // only affects what is shown to people
	return h, true, nil
}

// Clean implements tool.Cleaner.
func (t *Remote) Clean(ctx context.Context, call tool.Call) error {
	if t.handles == nil {
		return nil
	}
	return t.handles.Forget(ctx, call)
}

// unknownOutcome returns the result of a call with an unknown outcome.
func unknownOutcome(err error) tool.Result {
	r := tool.Failf("The MCP server did not answer the call, which may have run: %v", err)
	r.ErrorKind = perdure.ErrorUnknown
	return r
}

// followedTask is a call that is a task of its server.
type followedTask struct {
	*Remote
	call      tool.Call
	env       tool.Env
	sink      tool.Sink
	handle    Handle
	putHandle int // number of the handle's questions asked in this attempt
	polls     int // number of polls in this attempt
	linked    bool
}

// follow follows a call that has just become a task. The handle is stored before any other request
// about the task.
func (t *Remote) follow(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink, created remoteTask) tool.Result {
	f := &followedTask{Remote: t, call: call, env: env, sink: sink, handle: t.handleOf(created)}
	if t.handles != nil {
		if err := t.handles.Store(context.WithoutCancel(ctx), call, f.handle); err != nil {
			f.cancelTask(ctx)
			return unknownOutcome(fmt.Errorf("store the handle of its task: %w", err))
		}
	}
	return f.untilEnd(ctx)
}

// link records the id of the remote task with ours. An attempt does this before anything else
// (SA13).
func (f *followedTask) link(ctx context.Context) error {
	if f.linked || f.env.Remote == nil {
		return nil
	}
	err := f.env.Remote.Link(ctx, f.handle.TaskID)
	f.linked = err == nil
	return err
}

// untilEnd polls until the task or ctx has ended. If the server is unavailable, it keeps trying for
// as long as the call may run.
func (f *followedTask) untilEnd(ctx context.Context) tool.Result {
	failures := 0
	if err := f.link(ctx); err != nil {
		f.sink.Status("The id of the remote task could not be recorded yet: " + err.Error())
	}
	for {
		if err := f.pause(ctx, failures); err != nil {
			return f.interrupted(ctx)
		}
		if err := f.link(ctx); err != nil { // no poll without the link; a lost task ends through ctx
			failures++
			continue
		}
		now, err := f.get(ctx)
		var refused *jsonrpc.Error
		switch {
		case ctx.Err() != nil:
			return f.interrupted(ctx)
		case errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams:
			// The server no longer knows the task.
			return f.ended(ctx, unknownOutcome(err))
		case err != nil:
			failures++
			f.renewCredentials(ctx)
			f.sink.Status("The MCP server is unavailable: " + err.Error())
			continue
		}
		failures = 0
		if now.Every > 0 {
			f.handle.PollInterval = now.Every
		}
		if result, done := f.step(ctx, now); done {
			if ctx.Err() != nil && now.Status == "input_required" {
				return f.interrupted(ctx)
			}
			return f.ended(ctx, result)
		}
	}
}

// step evaluates one response about the task.
func (f *followedTask) step(ctx context.Context, now *remoteTask) (result tool.Result, done bool) {
	f.sink.Heartbeat()
	switch now.Status {
	case "completed":
		return f.result(f.call, lenientResult(now.Result)), true
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

// pause waits until the next poll: the interval that the server asked for, and longer while it is
// unavailable. The jitter separates calls that started together.
func (f *followedTask) pause(ctx context.Context, failures int) error {
	every := pollDefault
	if f.handle.PollInterval > 0 {
		every = time.Duration(f.handle.PollInterval) * time.Millisecond
	}
	wait := min(max(every, minPoll), maxPoll)
	f.polls++
	wait += wait * time.Duration(jitter(f.call.Key, f.polls)) / 1000
	if failures > 0 {
		wait = max(wait, perdure.RetryDelay(min(failures, 6), 0, f.call.Key))
	}
	if client, err := f.connection(ctx, f.call); err == nil {
		wait = max(wait, client.backingOff())
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

// maxJitter is the maximum extension of a pause, in thousandths.
const maxJitter = 200

// jitter returns the extension of one pause of a call, in thousandths. It is deterministic.
func jitter(key string, poll int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", key, poll)
	return h.Sum32() % maxJitter
}

// sendRequest sends a request about the task. It has a timeout: an unresponsive server is asked
// again later.
func sendRequest[R mcp.Result](ctx context.Context, f *followedTask, method string, p *taskParams) (result R, err error) {
	client, err := f.connection(ctx, f.call)
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, client.cfg.Patience)
	defer cancel()
	session, _, err := client.connected(ctx)
	if err != nil {
		return result, err
	}
	return mcp.CallCustomMethod[*taskParams, R](ctx, session, method, p)
}

// renewCredentials fetches the credentials of the session again after a request failed, because a
// task may run for longer than they are valid. Without them the server refuses the next request,
// which is reported. A task that only is to be stopped has no env to fetch them with.
func (f *followedTask) renewCredentials(ctx context.Context) {
	if f.env.Call.ID != "" {
		_ = f.prepareCall(context.WithoutCancel(ctx), f.env)
	}
}

func (f *followedTask) get(ctx context.Context) (*remoteTask, error) {
	now, err := sendRequest[*remoteTask](ctx, f, methodGet, &taskParams{TaskID: f.handle.TaskID})
	if err == nil && now.TaskID != f.handle.TaskID { // the server answered about another task
		return nil, fmt.Errorf("the server was asked about task %s but answered about %.80q", f.handle.TaskID, now.TaskID)
	}
	return now, err
}

// interrupted ends the wait before the task has ended. If the call itself is to end, the task is
// canceled. If only this process is stopping, the task continues.
func (f *followedTask) interrupted(ctx context.Context) tool.Result {
	if cause := perdure.CauseOf(ctx); cause != perdure.CauseShutdown && cause != perdure.CauseSuperseded {
		f.cancelTask(ctx)
	}
	return tool.FromError(context.Cause(ctx))
}

// cancelTask cancels the task. If the server cannot be reached within the timeout, the call ends
// here all the same, and its handle remains in the list of active tasks.
func (f *followedTask) cancelTask(ctx context.Context) {
	stopping, end := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer end()
	if err := f.cancel(stopping); err != nil {
		f.sink.Status("The cancel could not be sent to the MCP server: " + err.Error())
		return
	}
	f.ended(stopping, tool.Result{})
}

// cancel sends the cancel until the server has acknowledged it or ctx ends. A task unknown to the
// server needs no cancel.
func (f *followedTask) cancel(ctx context.Context) error {
	for failures := 1; ; failures++ {
		attempt, end := context.WithTimeout(ctx, cancelRetry)
		_, err := sendRequest[*empty](attempt, f, methodCancel, &taskParams{TaskID: f.handle.TaskID})
		end()
		var refused *jsonrpc.Error
		if err == nil || errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams {
			return nil
		}
		f.renewCredentials(ctx)
		select {
		case <-time.After(perdure.RetryDelay(failures, 0, f.call.Key) / 2):
		case <-ctx.Done():
			return err
		}
	}
}

// ended records that the task has ended.
func (f *followedTask) ended(ctx context.Context, r tool.Result) tool.Result {
	if f.handles != nil {
		_ = f.handles.End(context.WithoutCancel(ctx), f.call) // only affects what is shown to people
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

// input passes the task's questions to people, and their answers to the server. done reports that a
// question cannot be answered here.
func (f *followedTask) input(ctx context.Context, now *remoteTask) (result tool.Result, done bool) {
	known := map[string]bool{}
	for _, q := range f.handle.OpenQuestion {
		known[q.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(now.Requests)) {
		if known[key] {
			continue
		}
		var r request
		if err := perdure.DecodeKnownJSON(now.Requests[key], &r); err != nil || r.Method != "elicitation/create" {
			f.cancelTask(ctx)
			return tool.Failf("The MCP server's task requests %s, which Perdure does not support. The task was canceled.", r.Method), true
		}
		f.handle.OpenQuestion = append(f.handle.OpenQuestion, OpenQuestion{Key: key, Prompt: r.Params.Message, Schema: r.Params.Schema})
	}
	if f.handles != nil {
		if err := f.handles.Store(ctx, f.call, f.handle); err != nil {
			return tool.Result{}, false // with the next poll
		}
	}
	responses := map[string]any{}
	for ; f.putHandle < len(f.handle.OpenQuestion); f.putHandle++ {
		q := f.handle.OpenQuestion[f.putHandle]
		reply, err := ask(ctx, f.env, q)
		if err != nil {
			if ctx.Err() == nil {
				f.cancelTask(ctx)
			}
			return tool.Failf("The MCP server's task asks %q, but no person can be asked here: %v", q.Prompt, err), true
		}
		if _, open := now.Requests[q.Key]; open {
			responses[q.Key] = reply
		}
	}
	if len(responses) == 0 {
		return tool.Result{}, false
	}
	if _, err := sendRequest[*empty](ctx, f, methodUpdate, &taskParams{TaskID: f.handle.TaskID, Responses: responses}); err != nil {
		f.putHandle = 0 // answers already given are returned at once, and sent again
	}
	return tool.Result{}, false
}

// ask asks one question and returns the answer in the format of the protocol.
func ask(ctx context.Context, env tool.Env, q OpenQuestion) (map[string]any, error) {
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
