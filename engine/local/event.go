package local

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// Events returns events of a session after seq.
func (e *Engine) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) (events []perdure.Event, err error) {
	return events, e.view(ctx, func(r store.Reader) error {
		if _, err := r.Session(id); err != nil {
			return err
		}
		events, err = r.Events(id, after, limit)
		return err
	})
}

// Follow calls fn with every event after seq, then with new ones, and with ephemeral frames in between.
func (e *Engine) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	err := e.view(ctx, func(r store.Reader) error {
		_, err := r.Session(id)
		return err
	})
	if err != nil {
		return fmt.Errorf("follow %s: %w", id, err)
	}
	return e.cfg.Store.Watch(ctx, id, after, func(f store.Frame) error {
		frame := engine.Frame{Event: f.Event, Type: f.Type, Dropped: f.Dropped}
		if f.Data != nil {
			data, err := json.Marshal(f.Data)
			if err != nil {
				return fmt.Errorf("follow %s: encode %s: %w", id, f.Type, err)
			}
			frame.Data = data
		}
		return fn(frame)
	})
}
