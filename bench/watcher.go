package main

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// measureWatcher measures how late a live watcher is: from the return of Send, which is after its commit, to the
// watcher's receipt of the message's event; and from before Send, with the sync in it. A watcher that was told before
// Send returned counts as 0.
func measureWatcher(ctx context.Context, l *lab) error {
	w, err := l.world(ctx, worldConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	var after, whole sample
	for range l.count(10, 1) {
		a, b, err := w.watched(ctx, l.count(30, 5))
		if err != nil {
			return err
		}
		after, whole = append(after, a...), append(whole, b...)
	}
	l.report.latencies("event_to_watcher", after)
	l.report.latencies("send_to_watcher", whole)
	l.report.atMost("event_to_watcher", "p99_us", 3_000)
	return nil
}

// watched sends messages to a new session while a watcher follows it.
func (w *world) watched(ctx context.Context, messages int) (after, whole sample, err error) {
	id, err := w.session(ctx, agent(false))
	if err != nil {
		return nil, nil, err
	}
	following, stop := context.WithCancel(ctx)
	received := make(chan time.Time, messages) // as many as are sent, so that the watcher never waits
	ended := make(chan error, 1)               // one result
	go func() {
		ended <- w.Follow(following, id, 0, func(f engine.Frame) error {
			if f.Event == nil {
				return nil
			}
			if _, ok := f.Event.Fact.(perdure.MessageReceived); ok {
				received <- time.Now()
			}
			return nil
		})
	}()
	defer func() {
		stop()
		if end := <-ended; err == nil && !errors.Is(end, context.Canceled) {
			err = end
		}
	}()
	for range messages {
		began := time.Now()
		if err := w.Send(ctx, id, order{}.message()); err != nil {
			return nil, nil, err
		}
		returned := time.Now()
		seen, err := within(ctx, received)
		if err != nil {
			return nil, nil, err
		}
		after, whole = append(after, max(seen.Sub(returned), 0)), append(whole, seen.Sub(began))
		if err := w.WaitIdle(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	return after, whole, nil
}

// within takes a moment from a channel, and does not wait for ever.
func within(ctx context.Context, from <-chan time.Time) (time.Time, error) {
	select {
	case at := <-from:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	case <-time.After(time.Minute):
		return time.Time{}, errors.New("nothing was heard of within a minute")
	}
}
