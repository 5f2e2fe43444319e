package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements that store/sqlite puts around the work: BEGIN and COMMIT around a batch, SAVEPOINT and RELEASE around each
// transaction that shares it with others, BEGIN and ROLLBACK around a view.
const (
	framesOfCommit      = 2
	framesOfTransaction = 2
	framesOfView        = 2
)

// moreCalls is how many calls the longer turn has beyond the first.
const moreCalls = 10

// measureTurn counts what one turn with one tool call costs the store, from the message to the rest: the commits of the
// real store, and the statements of a store that counts them. A longer turn tells what each further call adds.
func measureTurn(ctx context.Context, l *lab) error {
	w, err := l.world(ctx, worldConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.warm(ctx); err != nil { // the start of an engine has transactions of its own
		return err
	}
	before := w.sqlite.Stats()
	made, err := w.watchedTurn(ctx, 1, func() { before = w.sqlite.Stats() })
	if err != nil {
		return err
	}
	after := w.sqlite.Stats()
	commits, transactions := float64(after.Commits-before.Commits), float64(after.Transactions-before.Transactions)
	const name = "one_tool_turn"
	l.report.set(name, "n", 1)
	l.report.set(name, "commits", commits)
	l.report.set(name, "transactions", transactions)
	l.report.set(name, "events", float64(made))
	l.report.atMost(name, "commits", 6)
	one, err := l.counted(ctx, 1)
	if err != nil {
		return err
	}
	many, err := l.counted(ctx, 1+moreCalls)
	if err != nil {
		return err
	}
	frames := framesOfCommit*commits + framesOfView*one.views
	if transactions > commits { // some shared a batch: at most all of them
		frames += framesOfTransaction * transactions
	}
	l.report.set(name, "work_statements", one.work)
	l.report.set(name, "frame_statements", frames)
	l.report.set(name, "statements", one.work+frames)
	l.report.set(name, "more_call_transactions", (many.transactions-one.transactions)/moreCalls)
	l.report.set(name, "more_call_work_statements", (many.work-one.work)/moreCalls)
	l.report.set(name, "more_call_events", (many.events-one.events)/moreCalls)
	l.report.atMost(name, "statements", 30)
	return nil
}

// cost is what a turn needed of the counting store.
type cost struct{ work, views, transactions, events float64 }

// counted runs a turn of calls, one a step, over the counting store. With profiles its statements are listed beside them.
func (l *lab) counted(ctx context.Context, calls int) (c cost, err error) {
	dir, err := l.folder("counted")
	if err != nil {
		return c, err
	}
	st, err := openCounted(ctx, dir)
	if err != nil {
		return c, err
	}
	w, err := openWorld(ctx, worldConfig{Store: st})
	if err != nil {
		return c, err
	}
	defer w.close()
	if err := w.warm(ctx); err != nil {
		return c, err
	}
	events, err := w.watchedTurn(ctx, calls, st.forget)
	if err != nil {
		return c, err
	}
	c = cost{
		work: float64(st.written.Load() + st.read.Load()), views: float64(st.views.Load()),
		transactions: float64(st.commits.Load()), events: float64(events),
	}
	if l.profile == "" {
		return c, nil
	}
	var list bytes.Buffer
	st.list(&list)
	return c, os.WriteFile(filepath.Join(l.profile, fmt.Sprintf("turn_of_%d.statements.txt", calls)), list.Bytes(), 0o644)
}

// errIdle ends the watch of a turn.
var errIdle = errors.New("idle")

// watchedTurn sends the message of a turn to a session that had one, calling began just before, and returns when the
// journal says that the session rests, with the number of its events since. It adds nothing to what is counted but a
// watcher's reads.
func (w *world) watchedTurn(ctx context.Context, calls int, began func()) (events int, err error) {
	id, err := w.session(ctx, agent(false))
	if err != nil {
		return 0, err
	}
	if err := w.rested(ctx, id, order{}); err != nil {
		return 0, err
	}
	before, err := w.Session(ctx, id)
	if err != nil {
		return 0, err
	}
	began()
	if err := w.Send(ctx, id, order{tool: "noop", all: calls, step: 1}.message()); err != nil {
		return 0, err
	}
	return w.idled(ctx, id, before.LastSeq)
}

// idled returns when the journal says that the session rests, with the number of its events since.
func (w *world) idled(ctx context.Context, id perdure.SessionID, after int64) (events int, err error) {
	err = w.store.Watch(ctx, id, after, func(f store.Frame) error {
		if f.Event == nil {
			return nil
		}
		events++
		if _, idle := f.Event.Fact.(perdure.SessionIdled); idle {
			return errIdle
		}
		return nil
	})
	if !errors.Is(err, errIdle) {
		return events, fmt.Errorf("watch the turn: %w", err)
	}
	return events, nil
}
