package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// rejoinFor is the default time for which a call without a key joins an earlier call with the same
// content (M4).
const rejoinFor = 10 * time.Minute

// call answers tools/call for an exposed tool.
func (s *Server) call(ctx context.Context, p peer, x exposed, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	asked, isTask := params.Meta[metaTask]
	switch {
	case p.modern && x.Task == TaskRequired && !p.tasks:
		return nil, needsTasks()
	case !p.modern && x.Task == TaskRequired && !isTask:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.PublicName + " runs only as a task: send it with a task parameter"}
	case !p.modern && x.Task == TaskForbidden && isTask:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.PublicName + " cannot run as a task"}
	}
	if isTask && !p.modern {
		if _, ok := asked.(map[string]any); !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "task must be an object"}
		}
	}
	if resumed, ok, err := s.resumeCall(ctx, p, x, params); ok || err != nil {
		if err != nil {
			return nil, s.rpcError(err)
		}
		p.reply.addCall(resumed.key)
		return s.waitFor(ctx, p, x, resumed, s.cfg.SoftBudget)
	}
	args, first, err := s.requireInput(p, x, params)
	if first != nil || err != nil {
		return first, err
	}
	made, err := s.start(ctx, p, x, params, args)
	if err != nil {
		return nil, s.rpcError(err)
	}
	if x.tool.Class != perdure.Pure { // pure calls are not joined
		p.reply.addCall(made.key)
	}
	if made.Task == nil { // refused, or only the result is still stored
		return s.callResult(ctx, p, x, made)
	}
	switch {
	case !p.modern && isTask:
		return s.created(p, made), nil
	case p.tasks && x.tool.Class != perdure.Pure && x.Task != TaskForbidden:
		return s.created(p, made), nil
	case p.tasks && x.Task != TaskForbidden:
		return s.waitFor(ctx, p, x, made, s.pureBudget(x))
	}
	return s.waitFor(ctx, p, x, made, s.cfg.SoftBudget)
}

// pureBudget returns how long to wait for a pure call before it becomes a task (M2).
func (s *Server) pureBudget(x exposed) time.Duration {
	if b := x.tool.SoftBudget; b > 0 && b < s.cfg.PureBudget {
		return b
	}
	return s.cfg.PureBudget
}

// trackedCall is a call with its key in the effect ledger.
type trackedCall struct {
	engine.HostCall
	key      perdure.CallKey
	progress any // the token for progress notifications; nil: the client wants none
}

// metadataOf returns the metadata that a client gives a call, for the tool, hooks and policies.
func metadataOf(meta mcp.Meta) (metadata map[string]string, err error) {
	given, ok := meta[metaRequest]
	if !ok {
		return nil, nil
	}
	fields, ok := given.(map[string]any)
	metadata = make(map[string]string, len(fields))
	for key, value := range fields {
		text, isText := value.(string)
		metadata[key], ok = text, ok && isText
	}
	if n := perdure.MetadataBytes(metadata); !ok || n > perdure.MaxMessageMetadataBytes {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
			"%s must be an object of strings, of at most %d bytes", metaRequest, perdure.MaxMessageMetadataBytes)}
	}
	return metadata, nil
}

// start commits the call, or finds the earlier call that it repeats (M4).
func (s *Server) start(ctx context.Context, p peer, x exposed, params *mcp.CallToolParamsRaw, args json.RawMessage) (trackedCall, error) {
	session, err := s.session(ctx, p.Principal)
	if err != nil {
		return trackedCall{}, err
	}
	order := engine.HostCallRequest{Session: session, Tool: x.Name, Args: args}
	if order.Metadata, err = metadataOf(params.Meta); err != nil {
		return trackedCall{}, err
	}
	if key, ok := params.Meta[metaKey]; ok {
		text, ok := key.(string)
		if !ok || text == "" || len(text) > 255 {
			return trackedCall{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: metaKey + " must be a string of 1 to 255 bytes"}
		}
		order.Key = text
	} else if x.RejoinWindow >= 0 {
		order.JoinWindow = rejoinFor
		if x.RejoinWindow > 0 {
			order.JoinWindow = x.RejoinWindow
		}
	}
	// Taken before the lookup: a reply that ends during the lookup was not noted in time for it.
	before := s.pendingReplies()
	made, err := s.cfg.Engine.HostCalls().Start(ctx, order)
	if errors.Is(err, perdure.NotFound) { // the session was deleted: the next one gets the same id
		s.forgetSession(p.ID)
		if _, err = s.session(ctx, p.Principal); err == nil {
			made, err = s.cfg.Engine.HostCalls().Start(ctx, order)
		}
	}
	if err == nil && order.JoinWindow > 0 && waitRecorded(ctx, before, perdure.CallKey{Session: session, Call: made.ID}) {
		made, err = s.cfg.Engine.HostCalls().Start(ctx, order)
	}
	return trackedCall{HostCall: made, key: perdure.CallKey{Session: session, Call: made.ID}, progress: params.GetProgressToken()}, err
}

// waitFor answers with the result if it arrives within budget, else with a task or a text about it
// (M9).
func (s *Server) waitFor(ctx context.Context, p peer, x exposed, made trackedCall, budget time.Duration) (mcp.Result, error) {
	waiting, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	stop := s.sendProgress(waiting, p, made)
	for made.Result == nil && !made.Task.State.Terminal() {
		now, err := s.cfg.Engine.HostCalls().Wait(waiting, made.key.Session, made.HostCall)
		if err != nil && waiting.Err() == nil {
			stop()
			return nil, s.rpcError(err)
		}
		if waiting.Err() != nil {
			break
		}
		if made.HostCall = now; made.Task == nil || !made.Task.AwaitsInput() {
			break
		}
		if answered, result, err := s.askDuring(waiting, p, x, made); !answered {
			stop()
			return result, err
		}
	}
	stop()
	if err := ctx.Err(); err != nil {
		s.callerLeft(ctx, p, x, made)
		return nil, err
	}
	if made.Result != nil {
		return s.callResult(ctx, p, x, made)
	}
	now, err := s.find(ctx, made.key)
	if err != nil {
		return nil, s.rpcError(err)
	}
	now.progress = made.progress
	switch {
	case now.Result != nil:
		return s.callResult(ctx, p, x, now)
	case p.tasks && x.Task != TaskForbidden:
		return s.created(p, now), nil
	}
	return s.stillRunning(now), nil
}

// callerLeft handles the end of the request of a running call: a pure call is canceled, any other
// continues as a task (M3). On 2025-11-25 a broken stream does not end a request, since the client
// may reconnect for the answer. Only a cancel notification does, which the SDK reports with the
// plain cause context.Canceled.
func (s *Server) callerLeft(ctx context.Context, p peer, x exposed, made trackedCall) {
	if x.tool.Class != perdure.Pure || !p.modern && !errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := s.cfg.Engine.Tasks().Cancel(ctx, made.Task.ID, p.ID, "its request was closed"); err != nil {
		s.cfg.Log.Warn("abandoned pure call not canceled", "task", made.Task.ID, "error", err)
	}
}

// find reads the current state of a call.
func (s *Server) find(ctx context.Context, key perdure.CallKey) (trackedCall, error) {
	found, err := s.cfg.Engine.HostCalls().Find(ctx, key)
	return trackedCall{HostCall: found, key: key}, err
}

// callResult returns the result of a finished call.
func (s *Server) callResult(ctx context.Context, p peer, x exposed, made trackedCall) (mcp.Result, error) {
	if failure := protocolFault(made); failure != nil {
		return nil, failure
	}
	made, err := s.withImages(ctx, made)
	var text json.RawMessage
	if err == nil {
		text, err = s.resultOf(x, made)
	}
	if err != nil {
		return nil, s.rpcError(err)
	}
	result := &verbatim{fields: text}
	result.Meta = mcp.Meta{metaCall: string(made.ID)}
	if p.modern {
		result.resultType = "complete"
	}
	return result, nil
}

// stillRunning returns the ordinary tool result for an unfinished call, for clients without Tasks
// (M9).
func (s *Server) stillRunning(made trackedCall) mcp.Result {
	id := taskID(made.ID)
	return &mcp.CallToolResult{
		Meta: mcp.Meta{metaCall: string(made.ID)},
		Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(
			"Still running as task %s. The task continues by itself: do not repeat the call. %s", id, s.followInstructions())}},
		StructuredContent: map[string]any{"task_id": id, "state": string(made.Task.State), "status_message": lastLine(*made.Task)},
	}
}

// sendProgress sends progress notifications while the client waits. The returned function stops it
// and returns after the last notification.
func (s *Server) sendProgress(ctx context.Context, p peer, made trackedCall) (stop func()) {
	if made.progress == nil || p.tasks || made.Task == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		last, count := "", 0.0
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			task, err := s.cfg.Engine.Tasks().Get(ctx, made.Task.ID)
			if err != nil {
				continue // the caller's own wait reports a lasting error
			}
			count++
			note := progressOf(task, made.progress, count)
			line := fmt.Sprint(note.Message, note.Total)
			if line != last {
				last = line
				_ = p.session.NotifyProgress(ctx, note) // the client may be gone
			}
		}
	}()
	return func() { cancel(); <-done }
}

// progressOf describes the progress of a task. The number rises with every notification, as the
// protocol requires.
func progressOf(t perdure.Task, token any, count float64) *mcp.ProgressNotificationParams {
	note := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: count, Message: lastLine(t)}
	if t.Progress != nil && t.Progress.Label == "" { // with a label the message has the numbers already
		if far := t.Progress.String(); far != "" && far != note.Message {
			note.Message = fmt.Sprintf("%s (%s)", note.Message, far)
		}
	}
	return note
}

// verbatim is a result whose fields are already JSON.
type verbatim struct {
	mcp.ResultBase
	fields     json.RawMessage // an object
	resultType string          // empty: absent on this version
}

// MarshalJSON writes the fields, the result type and the metadata.
func (v *verbatim) MarshalJSON() ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := perdure.DecodeJSON(v.fields, &fields); err != nil {
		return nil, err
	}
	if v.resultType != "" {
		fields["resultType"] = json.RawMessage(`"` + v.resultType + `"`)
	}
	meta := map[string]any{}
	if given := fields["_meta"]; len(given) > 0 && !bytes.Equal(given, []byte("null")) {
		if err := perdure.DecodeJSON(given, &meta); err != nil {
			return nil, err
		}
	}
	for k, value := range v.Meta {
		meta[k] = value
	}
	if len(meta) > 0 {
		text, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		fields["_meta"] = text
	}
	return json.Marshal(fields)
}

// protocolFault returns the JSON-RPC error of a call that failed inside the engine; nil: the call
// ended with a result or error of its tool.
func protocolFault(made trackedCall) error {
	if made.Result == nil {
		return errors.New("the call has not ended")
	}
	switch made.Result.ErrorKind {
	case perdure.ErrorInternal, perdure.ErrorPanic, perdure.ErrorNoResult:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: made.Result.Error}
	}
	return nil
}
