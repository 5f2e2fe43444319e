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

// call is a row of the ledger without its fences: they are the workers' own.
type call struct {
	perdure.Call
	Worker *bool `json:"worker_id,omitempty" hidden:"true"` // hides the ledger's
	Epoch  *bool `json:"epoch,omitempty" hidden:"true"`     // likewise
}

// ofCall is the path of a call.
type ofCall struct {
	OfSession
	Call perdure.CallID `path:"call" example:"call_1" doc:"The call, as the model named it."`
}

type oneCall struct{ Body call }

// resolution is an operator's word on an unknown outcome (LG11).
type resolution struct {
	Outcome perdure.Answer  `json:"outcome" enum:"happened,did_not_happen,run_again" doc:"run_again is for tasks only: the turn that asked for a call went on without it."`
	Result  json.RawMessage `json:"result,omitempty" doc:"With happened: what the call would have answered."`
	Note    string          `json:"note,omitempty"`
}

// word is what was said. offers names what may be said of the thing.
func (r resolution) word(ctx context.Context, offers string) (engine.Word, error) {
	if r.Outcome.Outcome() == "" {
		return engine.Word{}, invalid("/outcome", "%s", offers)
	}
	return engine.Word{Answer: r.Outcome, Result: r.Result, By: requestOf(ctx).actor, Note: r.Note}, nil
}

// exampleResolution is the word of the document's example.
func exampleResolution() body[resolution] {
	return body[resolution]{example: resolution{Outcome: perdure.DidNotHappen, Note: "no such payment at the provider"}}
}

// detaching is the body of a detach: there is nothing to say.
type detaching struct{}

// clientAnswer is what became of a call at the client (AP11).
type clientAnswer struct {
	Result json.RawMessage `json:"result,omitempty" doc:"What the model reads: any JSON."`
	Error  string          `json:"error,omitempty" doc:"Instead of a result: why there is none, for the model to read."`
}

// of is the answer as the record of a call.
func (c clientAnswer) of(id perdure.CallID) (perdure.ToolResult, error) {
	switch {
	case (len(c.Result) > 0) == (c.Error != ""):
		return perdure.ToolResult{}, invalid("", "either a result or an error that is not empty")
	case c.Error != "":
		return perdure.Failed(id, perdure.ErrorTool, c.Error), nil
	}
	return perdure.ToolResult{CallID: id, Result: c.Result}, nil
}

func (a *API) callOperations() {
	read(a, operation{
		id: "list-calls", path: "/v1/sessions/{id}/calls", policy: reads, summary: "List the calls of a session, in the order of their claims",
		errors: []int{http.StatusNotFound},
	}, a.listCalls)
	read(a, operation{
		id: "get-call", path: "/v1/sessions/{id}/calls/{call}", policy: reads, summary: "Show a call", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofCall) (*oneCall, error) {
		c, err := a.findCall(ctx, perdure.CallKey{Session: in.ID, Call: in.Call})
		return &oneCall{Body: call{Call: c}}, err
	})
	write(a, operation{
		id: "resolve-call", path: "/v1/sessions/{id}/calls/{call}/resolve", policy: approves, summary: "Say what became of a call whose outcome is unknown",
		errors: []int{http.StatusNotFound},
	}, exampleResolution(), a.resolveCall)
	write(a, operation{
		id: "detach-call", path: "/v1/sessions/{id}/calls/{call}/detach", policy: writes, summary: "Let a call that runs in the foreground go on as a task",
		errors: []int{http.StatusNotFound},
	}, body[detaching]{optional: true}, a.detachCall)
	write(a, operation{
		id: "answer-call", path: "/v1/sessions/{id}/calls/{call}/result", policy: writes, summary: "Give the result of a call that was asked for from the client",
		errors: []int{http.StatusNotFound},
	}, body[clientAnswer]{example: clientAnswer{Result: json.RawMessage(`{"city":"Lisbon"}`)}}, a.answerCall)
}

func (a *API) hostCallOperations() {
	write(a, operation{
		id: "start-call", path: "/v1/sessions/{id}/calls", policy: writes, summary: "Call a tool as a task, without a model", status: http.StatusAccepted,
		errors: []int{http.StatusNotFound},
	}, body[engine.CallOrder]{example: engine.CallOrder{Tool: "echo", Args: json.RawMessage(`{"text":"hello"}`)}}, a.startCall)
	read(a, operation{
		id: "get-host-call", path: "/v1/sessions/{id}/calls/{call}/task", policy: reads, summary: "Show a call that no model made, with its task and its result",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofCall) (*oneHostCall, error) {
		c, err := a.cfg.Engine.FindCall(ctx, perdure.CallKey{Session: in.ID, Call: in.Call})
		return shownHostCall(c), err
	})
	write(a, operation{
		id: "told-call", path: "/v1/sessions/{id}/calls/{call}/told", policy: writes, summary: "Note that the caller has the whole reply to a call that no model made",
		errors: []int{http.StatusNotFound},
	}, body[detaching]{optional: true}, func(ctx context.Context, in *ofCall, _ detaching) (*oneHostCall, error) {
		key := perdure.CallKey{Session: in.ID, Call: in.Call}
		if err := a.cfg.Engine.ToldCall(ctx, key); err != nil {
			return nil, err
		}
		c, err := a.cfg.Engine.FindCall(ctx, key)
		return shownHostCall(c), err
	})
}

type oneHostCall struct{ Body engine.HostCall }

// begunHostCall is a call that was started just now.
type begunHostCall struct {
	Location string `header:"Location"` // of its task; empty: it has none
	Body     engine.HostCall
}

func begun(c engine.HostCall) *begunHostCall {
	out := &begunHostCall{Body: shownHostCall(c).Body}
	if c.Task != nil {
		out.Location = "/v1/tasks/" + string(c.Task.ID)
	}
	return out
}

func shownHostCall(c engine.HostCall) *oneHostCall {
	if c.Task != nil {
		t := shown(*c.Task)
		c.Task = &t
	}
	return &oneHostCall{Body: c}
}

// startCall starts a call. A request with an idempotency key is one call, unless it says itself which call it is.
func (a *API) startCall(ctx context.Context, in *OfSession, order engine.CallOrder) (*begunHostCall, error) {
	order.Session = in.ID
	if req := requestOf(ctx); req.named && order.Key == "" && order.Join == 0 {
		order.Key = "request:" + hex.EncodeToString(req.seed[:])
	}
	c, err := a.cfg.Engine.StartCall(ctx, order)
	return begun(c), err
}

func (a *API) listCalls(ctx context.Context, in *OfSession) (*page[call], error) {
	calls, err := a.cfg.Engine.Calls(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	shown := make([]call, len(calls))
	for i, c := range calls {
		shown[i] = call{Call: c}
	}
	return pageOf(shown, len(shown), nil), nil
}

func (a *API) findCall(ctx context.Context, key perdure.CallKey) (perdure.Call, error) {
	calls, err := a.cfg.Engine.Calls(ctx, key.Session)
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

// resolveCall gives the word. A request with an idempotency key that was begun before, and finds its word given,
// answers with the state as it is.
func (a *API) resolveCall(ctx context.Context, in *ofCall, body resolution) (*oneCall, error) {
	word, err := body.word(ctx, "happened or did_not_happen")
	if err != nil {
		return nil, err
	}
	key := perdure.CallKey{Session: in.ID, Call: in.Call}
	refused := a.cfg.Engine.ResolveCall(ctx, key, word)
	if refused != nil && !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).again) {
		return nil, refused
	}
	c, err := a.findCall(ctx, key)
	if err == nil && refused != nil && c.ResolvedBy != word.By {
		return nil, refused
	}
	return &oneCall{Body: call{Call: c}}, err
}

// detachCall moves the call. A request with an idempotency key that was begun before, and finds the call gone from the
// foreground, answers with the task that it became.
func (a *API) detachCall(ctx context.Context, in *ofCall, _ detaching) (*oneTask, error) {
	key := perdure.CallKey{Session: in.ID, Call: in.Call}
	t, err := a.cfg.Engine.DetachCall(ctx, key, requestOf(ctx).actor)
	if err == nil || !requestOf(ctx).again {
		return &oneTask{Body: shown(t)}, err
	}
	c, unread := a.findCall(ctx, key)
	if unread != nil || c.Task == "" {
		return nil, err
	}
	t, err = a.cfg.Engine.Task(ctx, c.Task)
	return &oneTask{Body: shown(t)}, err
}

// answerCall hands the client's answer over, once; the same again is accepted.
func (a *API) answerCall(ctx context.Context, in *ofCall, body clientAnswer) (*toolAnswer, error) {
	result, err := body.of(in.Call)
	if err != nil {
		return nil, err
	}
	err = a.cfg.Engine.AnswerCall(ctx, perdure.CallKey{Session: in.ID, Call: in.Call}, requestOf(ctx).actor, result)
	return &toolAnswer{Body: result}, err
}
