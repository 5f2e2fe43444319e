package host

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/hostcall"
)

func (e hostHostCalls) Start(ctx context.Context, o engine.HostCallRequest) (engine.HostCall, error) {
	made, err := e.effects.HostCalls().Start(ctx, hostcall.Request{
		Session: o.Session, Tool: o.Tool, Args: o.Args, Title: o.Title, Key: o.Key, Join: o.JoinWindow, KeyIsRequestID: o.KeyIsGenerated,
		Metadata: o.Metadata,
	})
	return hostCall(made), err
}

func (e hostHostCalls) Find(ctx context.Context, key perdure.CallKey) (engine.HostCall, error) {
	found, err := e.effects.HostCalls().Find(ctx, key)
	return hostCall(found), err
}

// Wait waits until a call has ended or awaits input. If the call ends in this process,
// HostCalls.Wait gets its result without a read.
func (e hostHostCalls) Wait(ctx context.Context, id perdure.SessionID, made engine.HostCall) (engine.HostCall, error) {
	key := perdure.CallKey{Session: id, Call: made.ID}
	if made.Result != nil || made.Task == nil {
		return made, nil
	}
	end, err := e.waitEnd(ctx, made.Task.ID)
	switch {
	case err != nil:
		return made, err
	case end.Task.Session != id || end.Task.Call != made.ID:
		return made, fmt.Errorf("call %s: %w", key, perdure.NotFound)
	case end.Result == nil:
		return e.HostCalls().Find(ctx, key)
	}
	return engine.HostCall{ID: made.ID, Task: &end.Task, Result: end.Result, Joined: made.Joined}, nil
}

// MarkReported records that the caller has received the complete reply.
func (e hostHostCalls) MarkReported(ctx context.Context, key perdure.CallKey) error {
	return e.effects.HostCalls().Acknowledge(ctx, key)
}

func hostCall(c hostcall.Call) engine.HostCall {
	shown := engine.HostCall{ID: c.ID, Result: c.Result, Joined: c.Joined}
	if c.Task.ID != "" {
		shown.Task = &c.Task
	}
	return shown
}
