package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
)

// laneBudget is the soft budget of the calls that leave their turn here.
const laneBudget = 5 * time.Millisecond

// laneClock gathers the moments of a call that leaves its turn. Calls come one after another.
type laneClock struct {
	claimed, placed chan time.Time // capacity 1, as all: one call at a time
	left            chan time.Time
	asked           chan time.Time // the newest question to the model that nobody has taken
}

func newLaneClock() *laneClock {
	room := func() chan time.Time { return make(chan time.Time, 1) }
	return &laneClock{claimed: room(), placed: room(), left: room(), asked: room()}
}

// put leaves the present moment in a channel, instead of an older one.
func put(into chan time.Time) {
	at := time.Now()
	select {
	case <-into:
	default:
	}
	into <- at
}

// wrap makes the store tell when the commits were answered that claimed a call and that put a placeholder in its place.
func (c *laneClock) wrap(s store.Store) store.Store { return &laneSpy{Store: s, clock: c} }

// laneSpy is a store that tells of claims and placeholders.
type laneSpy struct {
	store.Store
	clock *laneClock
}

// InTx runs fn and tells when what it wrote was answered.
func (s *laneSpy) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var seen laneTx
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		seen = laneTx{Tx: tx}
		return fn(&seen)
	})
	if err == nil && seen.claimed {
		put(s.clock.claimed)
	}
	if err == nil && seen.placed {
		put(s.clock.placed)
	}
	return err
}

// laneTx notes what a transaction writes of a call's way.
type laneTx struct {
	store.Tx
	claimed, placed bool
}

// Claim claims and notes.
func (tx *laneTx) Claim(call perdure.Call, live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	tx.claimed = true
	return tx.Tx.Claim(call, live)
}

// Append appends, and notes the events of a call that leaves its turn: its placeholder is among them.
func (tx *laneTx) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		if _, ok := e.Fact.(perdure.ToolDetached); ok {
			tx.placed = true
		}
	}
	return tx.Tx.Append(id, events)
}

// laneTimes are what the measurements of lanes found.
type laneTimes struct{ commits, placed, woken sample }

// measureLanes measures calls that leave their turn: from the end of the soft budget to the placeholder in the journal, and from
// the return of such a call in a session at rest to the next question to the model. Both are held against a commit of one event.
func measureLanes(ctx context.Context, l *lab) error {
	clock := newLaneClock()
	t := &tools{release: make(chan struct{}), leaving: func(m moment) { clock.left <- m.at }}
	w, err := l.world(ctx, worldConfig{Tools: t, Wrap: clock.wrap, Soft: laneBudget, Asked: func(perdure.SessionID) { put(clock.asked) }})
	if err != nil {
		return err
	}
	defer w.close()
	var times laneTimes
	for range l.count(10, 1) {
		s, err := w.eventCommits(ctx, l.count(30, 3))
		if err != nil {
			return err
		}
		times.commits = append(times.commits, s...)
		if err := w.laneRound(ctx, clock, l.count(30, 3), &times); err != nil {
			return err
		}
	}
	l.report.latencies("event_commit", times.commits)
	l.report.latencies("budget_to_placeholder", times.placed)
	l.report.latencies("result_to_model", times.woken)
	for _, figure := range []string{"budget_to_placeholder", "result_to_model"} {
		l.report.ratio(figure, "event_commit", "p50_us", "commit_p50_ratio")
		l.report.ratio(figure, "event_commit", "p99_us", "commit_p99_ratio")
	}
	l.report.atMost("result_to_model", "p99_us", goal{sqlite: 50_000}) // R34
	return nil
}

// laneRound makes calls in a new session, one after another, each of which leaves its turn and returns when the session rests.
func (w *world) laneRound(ctx context.Context, clock *laneClock, calls int, into *laneTimes) error {
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return err
	}
	for range calls {
		before, err := w.Session(ctx, id)
		if err != nil {
			return err
		}
		if err := w.turn(ctx, id, order{tool: "linger", all: 1, step: 1}); err != nil {
			return err
		}
		if _, err := w.idled(ctx, id, before.LastSeq); err != nil { // it rests, while the call goes on
			return err
		}
		claimed, err := within(ctx, clock.claimed)
		if err != nil {
			return fmt.Errorf("wait for the claim: %w", err)
		}
		placed, err := within(ctx, clock.placed)
		if err != nil {
			return fmt.Errorf("wait for the placeholder: %w", err)
		}
		into.placed = append(into.placed, placed.Sub(claimed.Add(laneBudget)))
		<-clock.asked // the turn's own question
		w.tools.release <- struct{}{}
		left, err := within(ctx, clock.left)
		if err != nil {
			return fmt.Errorf("wait for the call's return: %w", err)
		}
		asked, err := within(ctx, clock.asked)
		if err != nil {
			return fmt.Errorf("wait for the model to be woken: %w", err)
		}
		into.woken = append(into.woken, asked.Sub(left))
		if err := w.WaitIdle(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// undriven makes a session past the engine, so that nobody drives it.
func (w *world) undriven(ctx context.Context) (perdure.SessionID, error) {
	id := effect.NewID[perdure.SessionID]()
	err := w.store.InTx(ctx, func(tx store.Tx) error {
		return tx.CreateSession(store.Session{ID: id, Status: perdure.SessionStarted, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	})
	if err != nil {
		return "", fmt.Errorf("make a session: %w", err)
	}
	return id, nil
}

// eventCommits appends events to the journal of a session that nobody drives, each in a commit of its own, through the
// store that the engine has.
func (w *world) eventCommits(ctx context.Context, n int) (sample, error) {
	id, err := w.undriven(ctx)
	if err != nil {
		return nil, err
	}
	var s sample
	for range n {
		began := time.Now()
		err := w.store.InTx(ctx, func(tx store.Tx) error {
			return tx.Append(id, []perdure.Event{{
				ID: effect.NewID[perdure.EventID](), At: tx.Now(), Actor: "user",
				Fact: perdure.MessageReceived{Message: perdure.Text("one event"), Source: "user"},
			}})
		})
		if err != nil {
			return nil, fmt.Errorf("commit an event: %w", err)
		}
		s = append(s, time.Since(began))
	}
	return s, nil
}

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
	l.report.atMost("event_to_watcher", "p99_us", goal{sqlite: 3_000})
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
