package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func callsPath(id perdure.SessionID) string { return "/v1/sessions/" + segment(id) + "/calls" }

func callPath(key perdure.CallKey) string { return callsPath(key.Session) + "/" + segment(key.Call) }

// Calls lists the calls of a session in the order of their claims. Token, worker and epoch are fences, and stay
// where the engine is.
func (e *Engine) Calls(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error) {
	return whole[perdure.Call](ctx, e, request{what: "calls of " + string(id), path: callsPath(id)})
}

// verdict is the body of an operator's word. By whom is for the server to say.
type verdict struct {
	Answer perdure.Answer  `json:"outcome"`
	Result json.RawMessage `json:"result,omitempty"`
	Note   string          `json:"note,omitempty"`
}

// ResolveCall gives an operator's word on a call whose outcome is unknown.
func (e *Engine) ResolveCall(ctx context.Context, key perdure.CallKey, word engine.Word) error {
	_, err := e.call(ctx, request{
		what: "resolve " + key.String(), path: callPath(key) + "/resolve",
		body: verdict{word.Answer, word.Result, word.Note}, actor: word.By,
	}, nil)
	return err
}

// AnswerCall records the client's answer to a call that was asked for from it. Invalid, beside what the engine
// refuses: what the API does not carry, which is all but a result, or the text of an error of the tool. Read is never
// the client's to say, and left out.
func (e *Engine) AnswerCall(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	what := "answer call " + key.String()
	body := struct {
		Result json.RawMessage `json:"result,omitempty"`
		Error  string          `json:"error,omitempty"`
	}{result.Result, result.Error}
	result.CallID, result.Read = key.Call, nil
	carried := perdure.ToolResult{CallID: key.Call, Result: result.Result}
	if result.Error != "" {
		carried, body.Result = perdure.Failed(key.Call, perdure.ErrorTool, result.Error), nil
		if result.ErrorKind == "" && result.Result == nil { // the text alone
			result.ErrorKind, result.Result = carried.ErrorKind, carried.Result
		}
	}
	if !reflect.DeepEqual(result, carried) {
		return fmt.Errorf("%s: %w result: the API carries a result, or an error of the tool as perdure.Failed makes it", what, perdure.Invalid)
	}
	_, err := e.call(ctx, request{what: what, path: callPath(key) + "/result", body: body, actor: by}, nil)
	return err
}

// DetachCall lets a running foreground call go on as a task.
func (e *Engine) DetachCall(ctx context.Context, key perdure.CallKey, by string) (task perdure.Task, err error) {
	_, err = e.call(ctx, request{what: "detach call " + key.String(), path: callPath(key) + "/detach", body: struct{}{}, actor: by}, &task)
	return task, err
}

// Tools lists the tools.
func (e *Engine) Tools(ctx context.Context) ([]engine.Tool, error) {
	return whole[engine.Tool](ctx, e, request{what: "tools", path: "/v1/tools"})
}

// CallTool runs a pure or idempotent tool once, outside any session. It waits as long as the tool runs; ctx is
// its only limit.
func (e *Engine) CallTool(ctx context.Context, name string, args json.RawMessage) (result perdure.ToolResult, err error) {
	body := struct {
		Args json.RawMessage `json:"args"`
	}{args}
	if len(args) == 0 {
		body.Args = json.RawMessage("{}")
	}
	_, err = e.call(ctx, request{what: "call tool " + name, path: "/v1/tools/" + segment(name) + "/call", body: body, patient: true}, &result)
	return result, err
}
