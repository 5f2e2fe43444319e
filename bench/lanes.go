package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// laneBudget is the soft budget of the detached calls.
const laneBudget = 5 * time.Millisecond

// laneClock collects the times of a detached call. Calls are sequential.
type laneClock struct {
	claimed, placed chan time.Time // capacity 1, like all: one call at a time
	left            chan time.Time
	asked           chan time.Time // the newest model call that was not received yet
}

func newLaneClock() *laneClock {
	room := func() chan time.Time { return make(chan time.Time, 1) }
	return &laneClock{claimed: room(), placed: room(), left: room(), asked: room()}
}

// put stores the current time in a channel, replacing an older one.
func put(into chan time.Time) {
	at := time.Now()
	select {
	case <-into:
	default:
	}
	into <- at
}

// wrap makes the store report when the commits that claim a call and that write its placeholder
// were acknowledged.
func (c *laneClock) wrap(s store.Store) store.Store { return &laneStore{Store: s, clock: c} }

// laneStore is a store that reports claims and placeholders.
type laneStore struct {
	store.Store
	clock *laneClock
}

// InTx runs fn and reports when its writes were acknowledged.
func (s *laneStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
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

// laneTx records the relevant writes of a transaction.
type laneTx struct {
	store.Tx
	claimed, placed bool
}

// laneTxCalls overrides a part of one noun.
type laneTxCalls struct {
	store.Calls
	*laneTx
}

func (tx *laneTx) Calls() store.Calls { return laneTxCalls{tx.Tx.Calls(), tx} }

// laneTxJournal overrides a part of one noun.
type laneTxJournal struct {
	store.Journal
	*laneTx
}

func (tx *laneTx) Journal() store.Journal { return laneTxJournal{tx.Tx.Journal(), tx} }

// laneTxReader reads what the transaction shows.
type laneTxReader struct {
	store.Reader
	tx *laneTx
}

func (tx *laneTx) Reader() store.Reader { return laneTxReader{tx.Tx.Reader(), tx} }

func (r laneTxReader) Calls() store.CallReader { return r.tx.Calls() }

func (r laneTxReader) Journal() store.JournalView { return r.tx.Journal() }

// Claim claims and records.
func (tx laneTxCalls) Claim(call perdure.Call,
	live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	tx.claimed = true
	return tx.Calls.Claim(call, live)
}

// Append appends, and records the events of a detached call, which include its placeholder.
func (tx laneTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		if _, ok := e.Fact.(perdure.ToolDetached); ok {
			tx.placed = true
		}
	}
	return tx.Journal.Append(id, events)
}

// laneTimes are the results of the lane measurements.
type laneTimes struct{ commits, placed, woken sample }

// measureLanes measures detached calls: from the end of the soft budget to the placeholder in the
// journal, and from the return of such a call in an idle session to the next model call. Both are
// compared with a commit of one event.
func measureLanes(ctx context.Context, l *runner) error {
	clock := newLaneClock()
	t := &tools{release: make(chan struct{}), leaving: func(m moment) { clock.left <- m.at }}
	w, err := l.world(ctx, engineRigConfig{Tools: t, Wrap: clock.wrap, Soft: laneBudget,
		Asked: func(perdure.SessionID) { put(clock.asked) }})
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

// laneRound makes sequential calls in a new session, each of which is detached and returns when the
// session is idle.
func (w *engineRig) laneRound(ctx context.Context, clock *laneClock, calls int, into *laneTimes) error {
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return err
	}
	for range calls {
		before, err := w.Sessions().Get(ctx, id)
		if err != nil {
			return err
		}
		if err := w.turn(ctx, id, order{tool: "linger", all: 1, step: 1}); err != nil {
			return err
		}
		// the session is idle while the call continues
		if _, err := w.waitIdleTurn(ctx, id, before.LastSeq); err != nil {
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
		<-clock.asked // the model call of the turn itself
		w.tools.release <- struct{}{}
		left, err := within(ctx, clock.left)
		if err != nil {
			return fmt.Errorf("wait for the return of the call: %w", err)
		}
		asked, err := within(ctx, clock.asked)
		if err != nil {
			return fmt.Errorf("wait for the next model call: %w", err)
		}
		into.woken = append(into.woken, asked.Sub(left))
		if err := w.Sessions().WaitIdle(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// undriven creates a session without the engine, so that it has no driver.
func (w *engineRig) undriven(ctx context.Context) (perdure.SessionID, error) {
	id := core.NewID[perdure.SessionID]()
	err := w.store.InTx(ctx, func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted, CreatedAt: tx.Now(),
			UpdatedAt: tx.Now()})
	})
	if err != nil {
		return "", fmt.Errorf("make a session: %w", err)
	}
	return id, nil
}

// eventCommits appends events to the journal of a session without a driver, each in a separate
// commit, with the store of the engine.
func (w *engineRig) eventCommits(ctx context.Context, n int) (sample, error) {
	id, err := w.undriven(ctx)
	if err != nil {
		return nil, err
	}
	var s sample
	for range n {
		began := time.Now()
		err := w.store.InTx(ctx, func(tx store.Tx) error {
			return tx.Journal().Append(id, []perdure.Event{{
				ID: core.NewID[perdure.EventID](), At: tx.Now(), Actor: "user",
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

// measureWatcher measures the delay of a live watcher: from the return of Send, which is after its
// commit, to the watcher's receipt of the message's event; and from before Send, including the
// sync. A watcher that received the event before Send returned counts as 0.
func measureWatcher(ctx context.Context, l *runner) error {
	w, err := l.world(ctx, engineRigConfig{})
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
func (w *engineRig) watched(ctx context.Context, messages int) (after, whole sample, err error) {
	id, err := w.session(ctx, agent(false))
	if err != nil {
		return nil, nil, err
	}
	following, stop := context.WithCancel(ctx)
	received := make(chan time.Time, messages) // capacity for all messages, so that the watcher never blocks
	ended := make(chan error, 1)               // capacity 1: one result
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
		if _, err := w.Send(ctx, id, order{}.message()); err != nil {
			return nil, nil, err
		}
		returned := time.Now()
		seen, err := within(ctx, received)
		if err != nil {
			return nil, nil, err
		}
		after, whole = append(after, max(seen.Sub(returned), 0)), append(whole, seen.Sub(began))
		if err := w.Sessions().WaitIdle(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	return after, whole, nil
}

// within receives a time from a channel, with a time limit.
func within(ctx context.Context, from <-chan time.Time) (time.Time, error) {
	select {
	case at := <-from:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	case <-time.After(time.Minute):
		return time.Time{}, errors.New("no event within a minute")
	}
}
