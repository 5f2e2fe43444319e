package remote

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Start starts a call for a caller other than a model. A retry does not start it twice.
func (e engineHostCalls) Start(ctx context.Context, o engine.HostCallRequest) (engine.HostCall, error) {
	o.KeyIsGenerated = o.Key == ""
	return fetch[engine.HostCall](ctx, e.Engine, request{what: "call " + o.Tool, path: callsPath(o.Session), body: o})
}

func (e engineHostCalls) Find(ctx context.Context, key perdure.CallKey) (engine.HostCall, error) {
	return fetch[engine.HostCall](ctx, e.Engine, request{what: "call " + key.String(), path: callPath(key) + "/task"})
}

// Wait waits until a call has ended or awaits input.
func (e engineHostCalls) Wait(ctx context.Context, id perdure.SessionID, made engine.HostCall) (engine.HostCall, error) {
	if made.Result != nil || made.Task == nil {
		return made, nil
	}
	if _, err := e.Tasks().Wait(ctx, made.Task.ID); err != nil {
		return made, err
	}
	found, err := e.HostCalls().Find(ctx, perdure.CallKey{Session: id, Call: made.ID})
	found.Joined = made.Joined
	return found, err
}

// MarkReported records that the caller has received the complete reply.
func (e engineHostCalls) MarkReported(ctx context.Context, key perdure.CallKey) error {
	_, err := e.call(ctx, request{
		what: "call " + key.String() + " was received", path: callPath(key) + "/told", body: struct{}{},
	}, nil)
	return err
}
