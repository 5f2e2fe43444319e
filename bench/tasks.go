package main

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// taskClock gathers the moments of runs by their number. The channels hold all moments of a round, so that nobody who
// reports waits.
type taskClock struct {
	asked, committed, entered, left chan moment
}

func newTaskClock(runs int) *taskClock {
	room := func() chan moment { return make(chan moment, runs) }
	return &taskClock{asked: room(), committed: room(), entered: room(), left: room()}
}

// tools makes tools that report to the clock.
func (c *taskClock) tools() *tools {
	return &tools{
		asked:   func(m moment) { c.asked <- m },
		entered: func(m moment) { c.entered <- m },
		left:    func(m moment) { c.left <- m },
	}
}

// wrap makes the store tell when the commit that created a run was answered.
func (c *taskClock) wrap(s store.Store) store.Store { return &spawnSpy{Store: s, clock: c} }

// spawnSpy is a store that tells of the commits that create tasks.
type spawnSpy struct {
	store.Store
	clock *taskClock
}

// InTx runs fn and tells when what it created was answered.
func (s *spawnSpy) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var created *perdure.Task
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		created = nil
		return fn(&spawnTx{Tx: tx, created: &created})
	})
	if created != nil && err == nil {
		if n, ok := numberOf(created.Spec.Arguments); ok {
			s.clock.committed <- moment{n: n, at: time.Now()}
		}
	}
	return err
}

// spawnTx notes the task that a transaction creates.
type spawnTx struct {
	store.Tx
	created **perdure.Task
}

// CreateTask creates and notes.
func (tx *spawnTx) CreateTask(t perdure.Task) (perdure.Task, bool, error) {
	stored, fresh, err := tx.Tx.CreateTask(t)
	if err == nil && fresh {
		*tx.created = &stored
	}
	return stored, fresh, err
}

// measureTasks measures background runs in this process: from the wish to the tool's entry, from the answered commit to
// the entry, and from the wish for an end to the end of the tool's context.
func measureTasks(ctx context.Context, l *lab) error {
	runs := l.count(32, 4)
	clock := newTaskClock(runs)
	w, err := l.world(ctx, worldConfig{Tools: clock.tools(), Wrap: clock.wrap})
	if err != nil {
		return err
	}
	defer w.close()
	var whole, after, cancels sample
	for range l.count(10, 1) {
		id, err := w.session(ctx, agent(true))
		if err != nil {
			return err
		}
		if err := w.turn(ctx, id, order{tool: "spawn", all: runs, step: 1}); err != nil {
			return err
		}
		entered, err := byNumber(ctx, clock.entered, runs)
		if err != nil {
			return err
		}
		asked, _ := byNumber(ctx, clock.asked, runs) // all were asked for and committed before they were entered
		committed, _ := byNumber(ctx, clock.committed, runs)
		for n, at := range entered {
			whole = append(whole, at.Sub(asked[n]))
			after = append(after, max(at.Sub(committed[n]), 0))
		}
		s, err := w.cancelAll(ctx, id, clock.left)
		if err != nil {
			return err
		}
		cancels = append(cancels, s...)
	}
	l.report.latencies("spawn_in_process", whole)
	l.report.latencies("spawn_commit_to_running", after)
	l.report.latencies("cancel", cancels)
	l.report.atMost("spawn_in_process", "p50_us", goal{sqlite: 1_000})
	l.report.atMost("cancel", "p99_us", goal{sqlite: 5_000})
	return nil
}

// byNumber takes n moments from a channel.
func byNumber(ctx context.Context, from <-chan moment, n int) (map[int]time.Time, error) {
	found := map[int]time.Time{}
	for range n {
		select {
		case m := <-from:
			found[m.n] = m.at
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("%d of %d runs were heard of within a minute", len(found), n)
		}
	}
	return found, nil
}

// cancelAll cancels the runs of a session one after another, each when the one before it has settled.
func (w *world) cancelAll(ctx context.Context, id perdure.SessionID, left <-chan moment) (sample, error) {
	tasks, err := w.Tasks(ctx, id)
	if err != nil {
		return nil, err
	}
	var s sample
	for _, task := range tasks {
		began := time.Now()
		if _, err := w.CancelTask(ctx, task.ID, "bench", "it is measured"); err != nil {
			return nil, err
		}
		ended, err := byNumber(ctx, left, 1)
		if err != nil {
			return nil, err
		}
		for _, at := range ended {
			s = append(s, at.Sub(began))
		}
		if _, err := w.WaitTask(ctx, task.ID); err != nil {
			return nil, err
		}
	}
	return s, nil
}
