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

// rejoinFor is how long a call without a key joins one of the same content (M4).
const rejoinFor = 10 * time.Minute

// legacyTask is the task parameter of the old wire.
type legacyTask struct {
	TTL *int64 `json:"ttl"`
}

// call answers tools/call for a marked tool.
func (s *Server) call(ctx context.Context, p peer, x exposed, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	asked, isTask := params.Meta[metaTask]
	switch {
	case p.modern && x.Task == TaskRequired && !p.tasks:
		return nil, needsTasks()
	case !p.modern && x.Task == TaskRequired && !isTask:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.As + " runs as a task only: send it with a task parameter"}
	case !p.modern && x.Task == TaskForbidden && isTask:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: x.As + " does not run as a task"}
	}
	if isTask && !p.modern {
		if _, ok := asked.(map[string]any); !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "task is no object"}
		}
	}
	if resumed, ok, err := s.resumed(ctx, p, x, params); ok || err != nil {
		if err != nil {
			return nil, s.rpcError(err)
		}
		p.reply.note(resumed.key)
		return s.waitFor(ctx, p, x, resumed, s.cfg.SoftBudget)
	}
	args, first, err := s.askFirst(p, x, params)
	if first != nil || err != nil {
		return first, err
	}
	made, err := s.start(ctx, p, x, params, args)
	if err != nil {
		return nil, s.rpcError(err)
	}
	if x.tool.Class != perdure.Pure { // which nobody joins
		p.reply.note(made.key)
	}
	if made.Task == nil { // refused, or forgotten but for its result
		return s.complete(p, x, made)
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

// pureBudget is how long a pure call is waited for before it is a task (M2).
func (s *Server) pureBudget(x exposed) time.Duration {
	if b := x.tool.SoftBudget; b > 0 && b < s.cfg.PureBudget {
		return b
	}
	return s.cfg.PureBudget
}

// ofCall is a call with its key in the ledger.
type ofCall struct {
	engine.HostCall
	key      perdure.CallKey
	progress any // the token under which its client hears of progress; nil: it does not
}

// start commits the call, or finds the one that this is again (M4).
func (s *Server) start(ctx context.Context, p peer, x exposed, params *mcp.CallToolParamsRaw, args json.RawMessage) (ofCall, error) {
	session, err := s.session(ctx, p.Principal)
	if err != nil {
		return ofCall{}, err
	}
	order := engine.CallOrder{Session: session, Tool: x.Name, Args: args}
	if key, ok := params.Meta[metaKey]; ok {
		text, ok := key.(string)
		if !ok || text == "" || len(text) > 255 {
			return ofCall{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: metaKey + ": a text of 1 to 255 bytes"}
		}
		order.Key = text
	} else if x.Rejoin >= 0 {
		order.Join = rejoinFor
		if x.Rejoin > 0 {
			order.Join = x.Rejoin
		}
	}
	before := s.onTheirWay() // looked at first: one that ends while the call is looked up was not noted for it
	made, err := s.cfg.Engine.StartCall(ctx, order)
	if errors.Is(err, perdure.NotFound) { // somebody deleted the session: the next one has its id
		s.forget(p.ID)
		if _, err = s.session(ctx, p.Principal); err == nil {
			made, err = s.cfg.Engine.StartCall(ctx, order)
		}
	}
	if err == nil && order.Join > 0 && noted(ctx, before, perdure.CallKey{Session: session, Call: made.ID}) {
		made, err = s.cfg.Engine.StartCall(ctx, order)
	}
	return ofCall{HostCall: made, key: perdure.CallKey{Session: session, Call: made.ID}, progress: params.GetProgressToken()}, err
}

// waitFor answers with the result when it comes in time, else with a task, or with a word about it (M9).
func (s *Server) waitFor(ctx context.Context, p peer, x exposed, made ofCall, budget time.Duration) (mcp.Result, error) {
	waiting, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	stop := s.tellProgress(waiting, p, made)
	for made.Result == nil && !made.Task.State.Terminal() {
		now, err := s.cfg.Engine.WaitCall(waiting, made.key.Session, made.HostCall)
		if err != nil && waiting.Err() == nil {
			stop()
			return nil, s.rpcError(err)
		}
		if waiting.Err() != nil {
			break
		}
		if made.HostCall = now; made.Task == nil || !made.Task.Waits() {
			break
		}
		if answered, result, err := s.askDuring(waiting, p, x, made); !answered {
			stop()
			return result, err
		}
	}
	stop()
	if err := ctx.Err(); err != nil {
		s.left(ctx, p, x, made)
		return nil, err
	}
	if made.Result != nil {
		return s.complete(p, x, made)
	}
	now, err := s.find(ctx, made.key)
	if err != nil {
		return nil, s.rpcError(err)
	}
	now.progress = made.progress
	switch {
	case now.Result != nil:
		return s.complete(p, x, now)
	case p.tasks && x.Task != TaskForbidden:
		return s.created(p, now), nil
	}
	return s.stillRunning(now), nil
}

// left does what the end of its request means for a call: a pure one stops, any other goes on as a task (M3). On the older wire a
// stream that breaks ends no request, since its client may come back for the answer; only a notification that cancels it does, which
// the SDK tells by giving no other cause.
func (s *Server) left(ctx context.Context, p peer, x exposed, made ofCall) {
	if x.tool.Class != perdure.Pure || !p.modern && !errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := s.cfg.Engine.CancelTask(ctx, made.Task.ID, p.ID, "its request was closed"); err != nil {
		s.cfg.Log.Warn("a pure call was not stopped", "task", made.Task.ID, "error", err)
	}
}

// find reads a call anew.
func (s *Server) find(ctx context.Context, key perdure.CallKey) (ofCall, error) {
	found, err := s.cfg.Engine.FindCall(ctx, key)
	return ofCall{HostCall: found, key: key}, err
}

// complete is the result of a call that has ended.
func (s *Server) complete(p peer, x exposed, made ofCall) (mcp.Result, error) {
	if failure := protocolFault(made); failure != nil {
		return nil, failure
	}
	text, err := s.resultOf(x, made)
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

// stillRunning is the ordinary result of a call that goes on, for clients without Tasks (M9).
func (s *Server) stillRunning(made ofCall) mcp.Result {
	id := taskID(made.ID)
	return &mcp.CallToolResult{
		Meta: mcp.Meta{metaCall: string(made.ID)},
		Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(
			"Still running, as task %s. It goes on by itself: do not repeat the call. %s", id, s.howToFollow())}},
		StructuredContent: map[string]any{"task_id": id, "state": string(made.Task.State), "status_message": lastLine(*made.Task)},
	}
}

// tellProgress tells the client how far the call is, while it is waited for. The returned function ends it and returns when
// nothing is told any more.
func (s *Server) tellProgress(ctx context.Context, p peer, made ofCall) (stop func()) {
	if made.progress == nil || p.tasks || made.Task == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		told, count := "", 0.0
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			task, err := s.cfg.Engine.Task(ctx, made.Task.ID)
			if err != nil {
				continue // the wait beside this says so, if it lasts
			}
			count++
			note := progressOf(task, made.progress, count)
			line := fmt.Sprint(note.Message, note.Total)
			if line != told {
				told = line
				_ = p.session.NotifyProgress(ctx, note) // a client that is gone hears nothing
			}
		}
	}()
	return func() { cancel(); <-done }
}

// progressOf is how far a task is. The number always rises, as the protocol wants it.
func progressOf(t perdure.Task, token any, count float64) *mcp.ProgressNotificationParams {
	note := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: count, Message: lastLine(t)}
	if pr := t.Progress; pr != nil && pr.Current != nil {
		note.Message = fmt.Sprintf("%s (%g)", note.Message, *pr.Current)
		if pr.Total != nil && *pr.Total > 0 {
			note.Message = fmt.Sprintf("%s (%g of %g)", lastLine(t), *pr.Current, *pr.Total)
		}
	}
	return note
}

// verbatim is a result whose fields are JSON already.
type verbatim struct {
	mcp.ResultBase
	fields     json.RawMessage // an object
	resultType string          // empty: the wire has none
}

// MarshalJSON writes the fields, with what is added to them.
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

// protocolFault is the JSON-RPC error of a call that failed inside; nil: it ended as a tool does.
func protocolFault(made ofCall) error {
	if made.Result == nil {
		return errors.New("it has not ended")
	}
	switch made.Result.ErrorKind {
	case perdure.ErrorInternal, perdure.ErrorPanic, perdure.ErrorNoResult:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: made.Result.Error}
	}
	return nil
}
