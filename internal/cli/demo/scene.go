package demo

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// runtime is a working session of a demo.
type runtime struct {
	eng  engine.Engine
	id   perdure.SessionID
	seen int64 // sequence number of the last printed event
}

// handlers receives the events of a scene, in one goroutine.
type handlers struct {
	onEvent func(perdure.Event) error
	input   <-chan string // the user's input; nil: there is none
	onInput func(string) error
}

// follow reports the events of the session until it is idle.
func (s *runtime) follow(ctx context.Context, to handlers) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rested, broke, events := make(chan error, 1), make(chan error, 1), make(chan perdure.Event)
	go func() { rested <- s.eng.Sessions().WaitIdle(ctx, s.id) }()
	go func() {
		broke <- s.eng.Follow(ctx, s.id, s.seen, func(f engine.Frame) error {
			if f.Event == nil {
				return nil
			}
			select {
			case events <- *f.Event:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	for {
		select {
		case event := <-events:
			s.seen = event.Seq
			if err := to.onEvent(event); err != nil {
				return err
			}
		case line, more := <-to.input:
			if !more {
				to.input = nil // a user in another terminal may still answer
				continue
			}
			if err := to.onInput(line); err != nil {
				return err
			}
		case err := <-broke:
			return err
		case err := <-rested:
			if err != nil {
				return err
			}
			return s.waitIdle(ctx, to.onEvent)
		}
	}
}

// waitIdle reports the remaining events of an idle session.
func (s *runtime) waitIdle(ctx context.Context, tell func(perdure.Event) error) error {
	events, err := s.eng.Events(ctx, s.id, s.seen, 0)
	if err != nil {
		return err
	}
	for _, event := range events {
		s.seen = event.Seq
		if err := tell(event); err != nil {
			return err
		}
	}
	return nil
}

// runScenario runs a demo and reads its results.
func (d Options) runScenario(ctx context.Context, play Scenario, act func(context.Context, *runtime) error,
	orders func(chaos.Journal) []chaos.Order) (chaos.Record, error) {
	err := d.runWithRuntime(ctx, play, act)
	if err != nil {
		return chaos.Record{}, fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	record, err := d.record(ctx, orders)
	if err != nil {
		return record, fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	return record, nil
}

// runWithRuntime opens the engine with a new session, runs the demo, and closes the engine.
func (d Options) runWithRuntime(ctx context.Context, play Scenario, act func(context.Context, *runtime) error) error {
	eng, end, err := d.OpenRuntime(ctx, RuntimeOptions{Dir: d.Dir, Scenario: play, Addr: d.address(), Log: d.Log})
	if err != nil {
		return err
	}
	err = d.invite(ctx)
	var session engine.Session
	if err == nil {
		session, err = eng.Sessions().Create(ctx, perdure.Agent{Name: "demo", Title: "demo " + string(play)})
	}
	if err == nil {
		err = act(ctx, &runtime{eng: eng, id: session.ID})
	}
	if ended := end(); err == nil {
		err = ended
	}
	return err
}

// dataFlag returns the data directory of a demo.
func (d Options) dataFlag() string { return filepath.Join(d.Dir, "data") }
