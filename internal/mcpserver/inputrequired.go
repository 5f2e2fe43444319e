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

// inputRequired asks the client for input: the client repeats the call with the answers
// (multi-round requests).
type inputRequired struct {
	mcp.ResultBase
	ResultType    string                  `json:"resultType"`
	InputRequests map[string]inputRequest `json:"inputRequests"`
	RequestState  string                  `json:"requestState,omitempty"`
}

// requestState is what a client carries from one round to the next. It is encrypted, and bound to
// the caller, the tool and the arguments (M6).
type requestState struct {
	Principal string `json:"p"`
	Tool      string `json:"t"`
	Args      string `json:"a"` // their fingerprint
	// The call that waits for the answer; empty: not started yet.
	Call perdure.CallID `json:"c,omitempty"`
}

// requireInput asks the questions that precede a call and returns the arguments completed with the
// answers. If first is not nil, it is the response that asks.
func (s *Server) requireInput(p peer, x exposed, params *mcp.CallToolParamsRaw) (args json.RawMessage, first mcp.Result, err error) {
	args = params.Arguments
	if len(x.InputFirst) == 0 {
		return args, nil, nil
	}
	print, err := perdure.Fingerprint(x.PublicName, orEmpty(args))
	if err != nil {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: " + err.Error()}
	}
	bound := requestState{Principal: p.ID, Tool: x.PublicName, Args: print}
	if params.RequestState != "" {
		if state, err := s.seal.open(params.RequestState); err != nil || state != bound {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState does not belong to this call"}
		}
	}
	fields := map[string]json.RawMessage{}
	if err := perdure.DecodeJSON(orEmpty(args), &fields); err != nil {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: " + err.Error()}
	}
	open := map[string]inputRequest{}
	for _, q := range x.InputFirst {
		if reply, ok := params.InputResponses[q.Key].(*mcp.ElicitResult); ok {
			if reply.Action != "accept" {
				return nil, refusal("The call was not made: the question before it was answered with " + reply.Action + "."), nil
			}
			fields[q.Key] = marshal(reply.Content[cmp.Or(q.AnswerProperty, q.Key)])
			continue
		}
		open[q.Key] = questionPart{key: q.Key, message: q.Prompt, schema: q.Schema}.request()
	}
	if len(open) == 0 {
		return marshal(fields), nil, nil
	}
	if !p.modern || !p.elicits {
		return nil, refusal("This tool must ask a person first, but this client does not support questions."), nil
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

// askDuring passes on the question of a call whose client waits. If answered is false, the result
// ends the wait.
func (s *Server) askDuring(ctx context.Context, p peer, x exposed, made trackedCall) (answered bool, result mcp.Result, err error) {
	switch {
	case p.tasks:
		return false, s.created(p, made), nil
	case needsOtherApprover(p, *made.Task), !p.elicits:
		return false, s.stillRunning(made), nil
	case !p.modern:
		return true, nil, s.elicit(ctx, p, *made.Task, "")
	}
	open, err := s.openParts(ctx, *made.Task)
	if err != nil {
		return false, nil, s.rpcError(err)
	}
	requests := map[string]inputRequest{}
	for _, q := range open {
		requests[q.key] = q.request()
	}
	state, err := s.seal.close(requestState{Principal: p.ID, Tool: x.PublicName, Args: made.Task.ArgsHash, Call: made.ID})
	if err != nil {
		return false, nil, s.rpcError(err)
	}
	return false, &inputRequired{ResultType: "input_required", InputRequests: requests, RequestState: state}, nil
}

// resumeCall finds the call that a client continues, and passes the answers on. If ok is false,
// params start a new call.
func (s *Server) resumeCall(ctx context.Context, p peer, x exposed, params *mcp.CallToolParamsRaw) (made trackedCall, ok bool, err error) {
	if params.RequestState == "" || len(x.InputFirst) > 0 {
		return made, false, nil
	}
	wrong := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState does not belong to this call"}
	state, err := s.seal.open(params.RequestState)
	if err != nil || state.Principal != p.ID || state.Tool != x.PublicName || state.Call == "" {
		return made, false, wrong
	}
	if print, err := perdure.Fingerprint(x.Name, orEmpty(params.Arguments)); err != nil || print != state.Args {
		return made, false, wrong
	}
	made, err = s.findOwn(ctx, p, taskID(state.Call))
	if err != nil {
		return made, false, err
	}
	given := map[string]answer{}
	for key, response := range params.InputResponses {
		if e, ok := response.(*mcp.ElicitResult); ok {
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

// waitAnsweredElsewhere returns when the task no longer waits for the same input: another person
// has answered.
func (s *Server) waitAnsweredElsewhere(ctx context.Context, t perdure.Task) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now, err := s.cfg.Engine.Tasks().Get(ctx, t.ID)
		if err != nil || !now.AwaitsInput() || now.InputRequest == nil || now.InputRequest.ID != t.InputRequest.ID {
			return err
		}
	}
}

// seal encrypts the state that clients carry. Its key exists only in this process: after a restart,
// the client must start the round again.
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
		return state, errors.New("it was not issued by this process")
	}
	err = perdure.DecodeJSON(plain, &state)
	return state, err
}
