package main

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// taskClock collects the times of runs by their number. The channels have capacity for all times of
// a round, so that reporting never blocks.
type taskClock struct {
	asked, committed, entered, left chan moment
}

func newTaskClock(runs int) *taskClock {
	room := func() chan moment { return make(chan moment, runs) }
	return &taskClock{asked: room(), committed: room(), entered: room(), left: room()}
}

// tools returns tools that report to the clock.
func (c *taskClock) tools() *tools {
	return &tools{
		asked:   func(m moment) { c.asked <- m },
		entered: func(m moment) { c.entered <- m },
		left:    func(m moment) { c.left <- m },
	}
}

// wrap makes the store report when the commit that created a run was acknowledged.
func (c *taskClock) wrap(s store.Store) store.Store { return &spawnStore{Store: s, clock: c} }

// spawnStore is a store that reports the commits that create tasks.
type spawnStore struct {
	store.Store
	clock *taskClock
}

// InTx runs fn and reports when its commit was acknowledged.
func (s *spawnStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
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

// spawnTx records the task that a transaction creates.
type spawnTx struct {
	store.Tx
	created **perdure.Task
}

// spawnTxTasks overrides a part of one noun.
type spawnTxTasks struct {
	store.Tasks
	*spawnTx
}

func (tx *spawnTx) Tasks() store.Tasks { return spawnTxTasks{tx.Tx.Tasks(), tx} }

// spawnTxReader reads what the transaction shows.
type spawnTxReader struct {
	store.Reader
	tx *spawnTx
}

func (tx *spawnTx) Reader() store.Reader { return spawnTxReader{tx.Tx.Reader(), tx} }

func (r spawnTxReader) Tasks() store.TaskReader { return r.tx.Tasks() }

// Create creates and records.
func (tx spawnTxTasks) Create(t perdure.Task) (perdure.Task, bool, error) {
	stored, fresh, err := tx.Tasks.Create(t)
	if err == nil && fresh {
		*tx.created = &stored
	}
	return stored, fresh, err
}

// measureTasks measures background runs in this process: from the request to the tool's entry, from
// the acknowledged commit to the entry, and from the cancel to the end of the tool's context.
func measureTasks(ctx context.Context, l *runner) error {
	runs := l.count(32, 4)
	clock := newTaskClock(runs)
	w, err := l.world(ctx, engineRigConfig{Tools: clock.tools(), Wrap: clock.wrap})
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
		asked, _ := byNumber(ctx, clock.asked, runs) // all requests and commits precede the entries
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

// byNumber receives n times from a channel.
func byNumber(ctx context.Context, from <-chan moment, n int) (map[int]time.Time, error) {
	found := map[int]time.Time{}
	for range n {
		select {
		case m := <-from:
			found[m.n] = m.at
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("%d of %d runs reported within a minute", len(found), n)
		}
	}
	return found, nil
}

// cancelAll cancels the runs of a session sequentially, each after the previous one has settled.
func (w *engineRig) cancelAll(ctx context.Context, id perdure.SessionID, left <-chan moment) (sample, error) {
	tasks, err := w.Tasks().List(ctx, id)
	if err != nil {
		return nil, err
	}
	var s sample
	for _, task := range tasks {
		began := time.Now()
		if _, err := w.Tasks().Cancel(ctx, task.ID, "bench", "it is measured"); err != nil {
			return nil, err
		}
		ended, err := byNumber(ctx, left, 1)
		if err != nil {
			return nil, err
		}
		for _, at := range ended {
			s = append(s, at.Sub(began))
		}
		if _, err := w.Tasks().Wait(ctx, task.ID); err != nil {
			return nil, err
		}
	}
	return s, nil
}
