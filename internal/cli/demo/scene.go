package demo

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// scene is a session at work on a stage.
type scene struct {
	eng  engine.Engine
	id   perdure.SessionID
	seen int64 // up to which its events were told
}

// audience is who is told of a scene, in one goroutine.
type audience struct {
	tell  func(perdure.Event) error
	typed <-chan string // what a person types meanwhile; nil: nothing
	heard func(string) error
}

// play tells of the session as it works, until it is at rest.
func (s *scene) play(ctx context.Context, to audience) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rested, broke, events := make(chan error, 1), make(chan error, 1), make(chan perdure.Event)
	go func() { rested <- s.eng.WaitIdle(ctx, s.id) }()
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
			if err := to.tell(event); err != nil {
				return err
			}
		case line, more := <-to.typed:
			if !more {
				to.typed = nil // somebody else may still do what a person would
				continue
			}
			if err := to.heard(line); err != nil {
				return err
			}
		case err := <-broke:
			return err
		case err := <-rested:
			if err != nil {
				return err
			}
			return s.rest(ctx, to.tell)
		}
	}
}

// rest tells what was not told when the session came to rest.
func (s *scene) rest(ctx context.Context, tell func(perdure.Event) error) error {
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

// perform plays on a stage, and reads what was left.
func (d Show) perform(ctx context.Context, play Play, act func(context.Context, *scene) error, orders func(chaos.Journal) []chaos.Order) (chaos.Record, error) {
	err := d.act(ctx, play, act)
	if err != nil {
		return chaos.Record{}, fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	record, err := d.record(ctx, orders)
	if err != nil {
		return record, fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	return record, nil
}

// act opens the stage with a new session on it, and closes it behind the play.
func (d Show) act(ctx context.Context, play Play, act func(context.Context, *scene) error) error {
	eng, end, err := d.Stage(ctx, Setting{Dir: d.Dir, Play: play, Log: d.Log})
	if err != nil {
		return err
	}
	session, err := eng.NewSession(ctx, perdure.Agent{Name: "demo", Title: "demo " + string(play)})
	if err == nil {
		err = act(ctx, &scene{eng: eng, id: session.ID})
	}
	if ended := end(); err == nil {
		err = ended
	}
	return err
}

// home is the data directory of a demo.
func (d Show) home() string { return filepath.Join(d.Dir, "data") }
