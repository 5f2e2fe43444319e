package mcpserver

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// inputRequired answers a call with a question: the client calls again, with the answer (MRTR).
type inputRequired struct {
	mcp.ResultBase
	ResultType    string                  `json:"resultType"`
	InputRequests map[string]inputRequest `json:"inputRequests"`
	RequestState  string                  `json:"requestState,omitempty"`
}

// requestState is what a client carries from one round to the next. It is sealed, and bound to who asks, the tool and the
// arguments (M6).
type requestState struct {
	Principal string         `json:"p"`
	Tool      string         `json:"t"`
	Args      string         `json:"a"`           // their fingerprint
	Call      perdure.CallID `json:"c,omitempty"` // that waits for the answer; empty: it is not made yet
}

// askFirst asks what is asked before a call is made, and returns the arguments with the answers. A result: ask.
func (s *Server) askFirst(p peer, x exposed, params *mcp.CallToolParamsRaw) (args json.RawMessage, first mcp.Result, err error) {
	args = params.Arguments
	if len(x.First) == 0 {
		return args, nil, nil
	}
	print, err := perdure.Fingerprint(x.As, orEmpty(args))
	if err != nil {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: " + err.Error()}
	}
	bound := requestState{Principal: p.ID, Tool: x.As, Args: print}
	if params.RequestState != "" {
		if state, err := s.seal.open(params.RequestState); err != nil || state != bound {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not the one of this call"}
		}
	}
	fields := map[string]json.RawMessage{}
	if err := perdure.DecodeJSON(orEmpty(args), &fields); err != nil {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: " + err.Error()}
	}
	open := map[string]inputRequest{}
	for _, q := range x.First {
		if said, ok := params.InputResponses[q.Key].(*mcp.ElicitResult); ok {
			if said.Action != "accept" {
				return nil, refusal("It was not done: the question before it was answered with " + said.Action + "."), nil
			}
			fields[q.Key] = marshal(said.Content[cmp.Or(q.Answer, q.Key)])
			continue
		}
		open[q.Key] = asked{key: q.Key, message: q.Prompt, schema: q.Schema}.request()
	}
	if len(open) == 0 {
		return marshal(fields), nil, nil
	}
	if !p.modern || !p.elicits {
		return nil, refusal("This tool asks a person first, and this client cannot be asked."), nil
	}
	state, err := s.seal.close(bound)
	if err != nil {
		return nil, nil, err
	}
	return nil, &inputRequired{ResultType: "input_required", InputRequests: open, RequestState: state}, nil
}

func refusal(text string) mcp.Result {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// askDuring asks what a call asks that its client waits for. Not answered: the result ends the wait.
func (s *Server) askDuring(ctx context.Context, p peer, x exposed, made ofCall) (answered bool, result mcp.Result, err error) {
	switch {
	case p.tasks:
		return false, s.created(p, made), nil
	case waitsForOthers(p, *made.Task), !p.elicits:
		return false, s.stillRunning(made), nil
	case !p.modern:
		return true, nil, s.elicit(ctx, p, *made.Task, "")
	}
	open, err := s.open(ctx, *made.Task)
	if err != nil {
		return false, nil, s.rpcError(err)
	}
	requests := map[string]inputRequest{}
	for _, q := range open {
		requests[q.key] = q.request()
	}
	state, err := s.seal.close(requestState{Principal: p.ID, Tool: x.As, Args: made.Task.ArgsHash, Call: made.ID})
	if err != nil {
		return false, nil, s.rpcError(err)
	}
	return false, &inputRequired{ResultType: "input_required", InputRequests: requests, RequestState: state}, nil
}

// resumed finds the call that a client goes on with, and gives it the answers. Not ok: params begin a call.
func (s *Server) resumed(ctx context.Context, p peer, x exposed, params *mcp.CallToolParamsRaw) (made ofCall, ok bool, err error) {
	if params.RequestState == "" || len(x.First) > 0 {
		return made, false, nil
	}
	wrong := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not the one of this call"}
	state, err := s.seal.open(params.RequestState)
	if err != nil || state.Principal != p.ID || state.Tool != x.As || state.Call == "" {
		return made, false, wrong
	}
	if print, err := perdure.Fingerprint(x.Name, orEmpty(params.Arguments)); err != nil || print != state.Args {
		return made, false, wrong
	}
	made, err = s.own(ctx, p, taskID(state.Call))
	if err != nil {
		return made, false, err
	}
	given := map[string]answer{}
	for key, said := range params.InputResponses {
		if e, ok := said.(*mcp.ElicitResult); ok {
			given[key] = answer{Action: e.Action, Content: marshal(e.Content)}
		}
	}
	if err := s.answer(ctx, p, *made.Task, given); err != nil {
		return made, false, err
	}
	made, err = s.find(ctx, made.key)
	made.progress = params.GetProgressToken()
	return made, err == nil, err
}

// waitMoved returns when a task waits for the same no more: somebody else answers it.
func (s *Server) waitMoved(ctx context.Context, t perdure.Task) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now, err := s.cfg.Engine.Task(ctx, t.ID)
		if err != nil || !now.Waits() || now.InputRequest == nil || now.InputRequest.ID != t.InputRequest.ID {
			return err
		}
	}
}

// seal encrypts what clients carry for us. Its key lives with the process: a round that a restart cuts is begun again.
type seal struct{ key [32]byte }

func (s *seal) box() (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (s *seal) close(state requestState) (string, error) {
	box, err := s.box()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(box.Seal(nil, nil, marshal(state), nil)), nil
}

func (s *seal) open(text string) (state requestState, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return state, err
	}
	box, err := s.box()
	if err != nil {
		return state, err
	}
	plain, err := box.Open(nil, nil, sealed, nil)
	if err != nil {
		return state, errors.New("it was not sealed here")
	}
	return state, perdure.DecodeJSON(plain, &state)
}
