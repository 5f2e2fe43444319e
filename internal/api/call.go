package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// call is a row of the effect ledger without its fencing tokens, which only workers need.
type call struct {
	perdure.Call
	Worker *bool `json:"worker_id,omitempty" hidden:"true"` // hides the field of the embedded Call
	Epoch  *bool `json:"epoch,omitempty" hidden:"true"`     // likewise
}

// ofCall is the path of a call.
type ofCall struct {
	OfSession
	Call perdure.CallID `path:"call" example:"call_1" doc:"The id of the call, as the model named it."`
}

// resolution is an operator's resolution of an unknown outcome (LG11).
type resolution struct {
	Outcome perdure.ResolveAnswer `json:"outcome" enum:"happened,did_not_happen,run_again" doc:"What happened. run_again is for tasks only: the turn of a call has already continued without it."`
	Result  json.RawMessage       `json:"result,omitempty" doc:"With happened: the result that the call would have returned."`
	Note    string                `json:"note,omitempty"`
}

// toEngine returns the resolution for the engine. offers names the outcomes that are allowed for
// this kind of work.
func (r resolution) toEngine(ctx context.Context, offers string) (engine.Resolution, error) {
	if r.Outcome.Outcome() == "" {
		return engine.Resolution{}, invalid("/outcome", "%s", offers)
	}
	return engine.Resolution{Answer: r.Outcome, Result: r.Result, By: requestOf(ctx).actor, Note: r.Note}, nil
}

// exampleResolution returns the example of the OpenAPI document.
func exampleResolution() body[resolution] {
	return body[resolution]{example: resolution{Outcome: perdure.ResolveDidNotHappen, Note: "no such payment at the provider"}}
}

// detaching is the empty body of a detach.
type detaching struct{}

// clientAnswer is the result of a client-side tool (AP11).
type clientAnswer struct {
	Result json.RawMessage `json:"result,omitempty" doc:"The result that the model reads: any JSON."`
	Error  string          `json:"error,omitempty" doc:"Instead of a result: an error text for the model."`
}

// of returns the answer as the result of a call.
func (c clientAnswer) of(id perdure.CallID) (perdure.ToolResult, error) {
	switch {
	case (len(c.Result) > 0) == (c.Error != ""):
		return perdure.ToolResult{}, invalid("", "either a result or a non-empty error is required")
	case c.Error != "":
		return perdure.Failed(id, perdure.ErrorTool, c.Error), nil
	}
	return perdure.ToolResult{CallID: id, Result: c.Result}, nil
}

func (a callHandlers) register() {
	read(a.API, operation{
		id: "list-calls", path: "/v1/sessions/{id}/calls", policy: reads, summary: "List the calls of a session, in the order in which they were claimed",
		errors: []int{http.StatusNotFound},
	}, a.listCalls)
	read(a.API, operation{
		id: "get-call", path: "/v1/sessions/{id}/calls/{call}", policy: reads, summary: "Show a call", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofCall) (*single[call], error) {
		c, err := a.findCall(ctx, perdure.CallKey{Session: in.ID, Call: in.Call})
		return &single[call]{call{Call: c}}, err
	})
	write(a.API, operation{
		id: "resolve-call", path: "/v1/sessions/{id}/calls/{call}/resolve", policy: approves, summary: "Resolve a call whose outcome is unknown",
		errors: []int{http.StatusNotFound},
	}, exampleResolution(), a.resolveCall)
	write(a.API, operation{
		id: "detach-call", path: "/v1/sessions/{id}/calls/{call}/detach", policy: writes, summary: "Detach a foreground call: it continues as a task",
		errors: []int{http.StatusNotFound},
	}, body[detaching]{optional: true}, a.detachCall)
	write(a.API, operation{
		id: "answer-call", path: "/v1/sessions/{id}/calls/{call}/result", policy: writes, summary: "Return the result of a call that the client was asked to execute",
		errors: []int{http.StatusNotFound},
	}, body[clientAnswer]{example: clientAnswer{Result: json.RawMessage(`{"city":"Lisbon"}`)}}, a.answerCall)
}

func (a callHandlers) registerHostCalls() {
	write(a.API, operation{
		id: "start-call", path: "/v1/sessions/{id}/calls", policy: writes, summary: "Call a tool as a task, without a model", status: http.StatusAccepted,
		errors: []int{http.StatusNotFound},
	}, body[engine.HostCallRequest]{example: engine.HostCallRequest{Tool: "echo", Args: json.RawMessage(`{"text":"hello"}`)}}, a.startCall)
	read(a.API, operation{
		id: "get-host-call", path: "/v1/sessions/{id}/calls/{call}/task", policy: reads, summary: "Show a call started without a model, with its task and its result",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofCall) (*single[engine.HostCall], error) {
		c, err := a.cfg.Engine.HostCalls().Find(ctx, perdure.CallKey{Session: in.ID, Call: in.Call})
		return shownHostCall(c), err
	})
	write(a.API, operation{
		id: "told-call", path: "/v1/sessions/{id}/calls/{call}/told", policy: writes, summary: "Confirm that the caller received the whole result of a call started without a model",
		errors: []int{http.StatusNotFound},
	}, body[detaching]{optional: true}, func(ctx context.Context, in *ofCall, _ detaching) (*single[engine.HostCall], error) {
		key := perdure.CallKey{Session: in.ID, Call: in.Call}
		if err := a.cfg.Engine.HostCalls().MarkReported(ctx, key); err != nil {
			return nil, err
		}
		c, err := a.cfg.Engine.HostCalls().Find(ctx, key)
		return shownHostCall(c), err
	})
}

// hostCallStarted is a call that was just started.
type hostCallStarted struct {
	Location string `header:"Location"` // of its task; empty: no task
	Body     engine.HostCall
}

func startedHostCall(c engine.HostCall) *hostCallStarted {
	out := &hostCallStarted{Body: shownHostCall(c).Body}
	if c.Task != nil {
		out.Location = "/v1/tasks/" + string(c.Task.ID)
	}
	return out
}

func shownHostCall(c engine.HostCall) *single[engine.HostCall] {
	if c.Task != nil {
		t := withoutWorker(*c.Task)
		c.Task = &t
	}
	return &single[engine.HostCall]{c}
}

// startCall starts a call. Requests with the same idempotency key are one call, unless the body
// identifies the call itself.
func (a callHandlers) startCall(ctx context.Context, in *OfSession, order engine.HostCallRequest) (*hostCallStarted, error) {
	order.Session = in.ID
	if req := requestOf(ctx); req.hasKey && order.Key == "" && order.JoinWindow == 0 {
		order.Key = "request:" + hex.EncodeToString(req.seed[:])
	}
	c, err := a.cfg.Engine.HostCalls().Start(ctx, order)
	return startedHostCall(c), err
}

func (a callHandlers) listCalls(ctx context.Context, in *OfSession) (*page[call], error) {
	calls, err := a.cfg.Engine.Calls().List(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	shown := make([]call, len(calls))
	for i, c := range calls {
		shown[i] = call{Call: c}
	}
	return pageOf(shown, len(shown), nil), nil
}

func (a callHandlers) findCall(ctx context.Context, key perdure.CallKey) (perdure.Call, error) {
	calls, err := a.cfg.Engine.Calls().List(ctx, key.Session)
	if err != nil {
		return perdure.Call{}, err
	}
	for _, c := range calls {
		if c.Key.Call == key.Call {
			return c, nil
		}
	}
	return perdure.Call{}, fmt.Errorf("call %s: %w", key, perdure.NotFound)
}

// resolveCall records a resolution. If a request with an idempotency key was started before and its
// resolution is already recorded, the response is the current state of the call.
func (a callHandlers) resolveCall(ctx context.Context, in *ofCall, body resolution) (*single[call], error) {
	resolution, err := body.toEngine(ctx, "happened or did_not_happen")
	if err != nil {
		return nil, err
	}
	key := perdure.CallKey{Session: in.ID, Call: in.Call}
	refused := a.cfg.Engine.Calls().Resolve(ctx, key, resolution)
	if refused != nil && !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).repeated) {
		return nil, refused
	}
	c, err := a.findCall(ctx, key)
	if err == nil && refused != nil && c.ResolvedBy != resolution.By {
		return nil, refused
	}
	return &single[call]{call{Call: c}}, err
}

// detachCall detaches the call. If a request with an idempotency key was started before and the
// call has already left the foreground, the response is the task that it became.
func (a callHandlers) detachCall(ctx context.Context, in *ofCall, _ detaching) (*single[perdure.Task], error) {
	key := perdure.CallKey{Session: in.ID, Call: in.Call}
	t, err := a.cfg.Engine.Calls().Detach(ctx, key, requestOf(ctx).actor)
	if err == nil || !requestOf(ctx).repeated {
		return &single[perdure.Task]{withoutWorker(t)}, err
	}
	c, unread := a.findCall(ctx, key)
	if unread != nil || c.Task == "" {
		return nil, err
	}
	t, err = a.cfg.Engine.Tasks().Get(ctx, c.Task)
	return &single[perdure.Task]{withoutWorker(t)}, err
}

// answerCall records the client's result once. Sending the same result again is accepted.
func (a callHandlers) answerCall(ctx context.Context, in *ofCall, body clientAnswer) (*single[perdure.ToolResult], error) {
	result, err := body.of(in.Call)
	if err != nil {
		return nil, err
	}
	err = a.cfg.Engine.Calls().Answer(ctx, perdure.CallKey{Session: in.ID, Call: in.Call}, requestOf(ctx).actor, result)
	return &single[perdure.ToolResult]{result}, err
}
