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

// List lists the calls of a session in the order of their claims. The fences (token, worker and
// epoch) are not part of the response.
func (e engineCalls) List(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error) {
	return unpaged[perdure.Call](ctx, e.Engine, request{what: "calls of " + string(id), path: callsPath(id)})
}

// resolutionBody is the body of a resolution. The server decides who the author is.
type resolutionBody struct {
	Answer perdure.ResolveAnswer `json:"outcome"`
	Result json.RawMessage       `json:"result,omitempty"`
	Note   string                `json:"note,omitempty"`
}

// Resolve records an operator's resolution of a call whose outcome is unknown.
func (e engineCalls) Resolve(ctx context.Context, key perdure.CallKey, word engine.Resolution) error {
	_, err := e.call(ctx, request{
		what: "resolve " + key.String(), path: callPath(key) + "/resolve",
		body: resolutionBody{word.Answer, word.Result, word.Note}, actor: word.By,
	}, nil)
	return err
}

// Answer records the client's result of a call. The API transfers only a result, or the text of
// an error of the tool; anything else is Invalid. Read is set by the engine only, and not sent.
func (e engineCalls) Answer(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	what := "answer call " + key.String()
	body := struct {
		Result json.RawMessage `json:"result,omitempty"`
		Error  string          `json:"error,omitempty"`
	}{result.Result, result.Error}
	result.CallID, result.ReadTasks = key.Call, nil
	carried := perdure.ToolResult{CallID: key.Call, Result: result.Result}
	if result.Error != "" {
		carried, body.Result = perdure.Failed(key.Call, perdure.ErrorTool, result.Error), nil
		if result.ErrorKind == "" && result.Result == nil { // only the text is given
			result.ErrorKind, result.Result = carried.ErrorKind, carried.Result
		}
	}
	if !reflect.DeepEqual(result, carried) {
		return fmt.Errorf("%s: %w result: the API transfers only a result, "+
			"or an error of the tool as perdure.Failed creates it", what, perdure.Invalid)
	}
	_, err := e.call(ctx, request{what: what, path: callPath(key) + "/result", body: body, actor: by}, nil)
	return err
}

// Detach lets a running foreground call continue as a task.
func (e engineCalls) Detach(ctx context.Context, key perdure.CallKey, by string) (perdure.Task, error) {
	return fetch[perdure.Task](ctx, e.Engine, request{
		what: "detach call " + key.String(), path: callPath(key) + "/detach", body: struct{}{}, actor: by,
	})
}

func (e engineTools) List(ctx context.Context) ([]engine.Tool, error) {
	return unpaged[engine.Tool](ctx, e.Engine, request{what: "tools", path: "/v1/tools"})
}

// Call runs a pure or idempotent tool once, outside any session. It waits until the tool
// returns or ctx ends.
func (e engineTools) Call(
	ctx context.Context, name string, args json.RawMessage,
) (perdure.ToolResult, error) {
	body := struct {
		Args json.RawMessage `json:"args"`
	}{args}
	if len(args) == 0 {
		body.Args = json.RawMessage("{}")
	}
	return fetch[perdure.ToolResult](ctx, e.Engine, request{
		what: "call tool " + name, path: "/v1/tools/" + segment(name) + "/call", body: body, noTimeout: true,
	})
}
