package remote

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// StartCall starts a call for a caller other than a model. A retry does not start it twice.
func (e *Engine) StartCall(ctx context.Context, o engine.HostCallRequest) (made engine.HostCall, err error) {
	o.KeyIsGenerated = o.Key == ""
	_, err = e.call(ctx, request{what: "call " + o.Tool, path: callsPath(o.Session), body: o}, &made)
	return made, err
}

// FindCall returns a call by its handle.
func (e *Engine) FindCall(ctx context.Context, key perdure.CallKey) (found engine.HostCall, err error) {
	_, err = e.call(ctx, request{what: "call " + key.String(), path: callPath(key) + "/task"}, &found)
	return found, err
}

// WaitCall waits until a call has ended or awaits input.
func (e *Engine) WaitCall(ctx context.Context, id perdure.SessionID, made engine.HostCall) (engine.HostCall, error) {
	if made.Result != nil || made.Task == nil {
		return made, nil
	}
	if _, err := e.WaitTask(ctx, made.Task.ID); err != nil {
		return made, err
	}
	found, err := e.FindCall(ctx, perdure.CallKey{Session: id, Call: made.ID})
	found.Joined = made.Joined
	return found, err
}

// AcknowledgeCall records that the caller has received the complete reply.
func (e *Engine) AcknowledgeCall(ctx context.Context, key perdure.CallKey) error {
	_, err := e.call(ctx, request{
		what: "call " + key.String() + " was received", path: callPath(key) + "/told", body: struct{}{},
	}, nil)
	return err
}
