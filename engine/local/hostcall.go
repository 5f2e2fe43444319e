package local

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
)

// StartCall starts a call of a caller that is no model.
func (e *Engine) StartCall(ctx context.Context, o engine.CallOrder) (engine.HostCall, error) {
	made, err := e.effects.StartHostCall(ctx, effect.HostOrder{
		Session: o.Session, Tool: o.Tool, Args: o.Args, Title: o.Title, Key: o.Key, Join: o.Join,
	})
	return hostCall(made), err
}

// FindCall returns a call by its handle.
func (e *Engine) FindCall(ctx context.Context, key perdure.CallKey) (engine.HostCall, error) {
	found, err := e.effects.FindHostCall(ctx, key)
	return hostCall(found), err
}

// ToldCall notes that the caller has the whole reply.
func (e *Engine) ToldCall(ctx context.Context, key perdure.CallKey) error {
	return e.effects.ToldHostCall(ctx, key)
}

func hostCall(c effect.HostCall) engine.HostCall {
	shown := engine.HostCall{ID: c.ID, Result: c.Result, Joined: c.Joined}
	if c.Task.ID != "" {
		shown.Task = &c.Task
	}
	return shown
}
