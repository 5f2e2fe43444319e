package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements that store/sqlite adds: BEGIN and COMMIT around a batch, SAVEPOINT and RELEASE
// around each transaction that shares it, BEGIN and ROLLBACK around a view.
const (
	framesOfCommit      = 2
	framesOfTransaction = 2
	framesOfView        = 2
)

// moreCalls is the number of further calls of the longer turn.
const moreCalls = 10

// measureTurn counts the store operations of one turn with one tool call, from the message until
// the session is idle: the commits of the real store, and the statements of a counting store. A
// longer turn shows the cost of each further call.
func measureTurn(ctx context.Context, l *runner) error {
	if l.onPostgres() {
		return l.turnOnPostgres(ctx)
	}
	w, err := l.world(ctx, engineRigConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.warm(ctx); err != nil { // starting an engine needs transactions, too
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
	l.report.atMost(name, "commits", goal{sqlite: 6})
	one, err := l.counted(ctx, 1)
	if err != nil {
		return err
	}
	many, err := l.counted(ctx, 1+moreCalls)
	if err != nil {
		return err
	}
	frames := framesOfCommit*commits + framesOfView*one.views
	if transactions > commits { // several shared a batch
		frames += framesOfTransaction * transactions
	}
	l.report.set(name, "work_statements", one.work)
	l.report.set(name, "frame_statements", frames)
	l.report.set(name, "statements", one.work+frames)
	l.report.set(name, "more_call_transactions", (many.transactions-one.transactions)/moreCalls)
	l.report.set(name, "more_call_work_statements", (many.work-one.work)/moreCalls)
	l.report.set(name, "more_call_events", (many.events-one.events)/moreCalls)
	l.report.atMost(name, "statements", goal{sqlite: 30})
	return nil
}

// cost is the number of operations of a turn.
type cost struct{ work, views, transactions, events float64 }

// turnOnPostgres counts the statements that the server received: with Postgres each transaction is
// a commit, and each statement, including BEGIN and COMMIT, is one round trip.
func (l *runner) turnOnPostgres(ctx context.Context) error {
	one, err := l.logged(ctx, 1)
	if err != nil {
		return err
	}
	many, err := l.logged(ctx, 1+moreCalls)
	if err != nil {
		return err
	}
	const name = "one_tool_turn"
	frames := framesOfCommit*one.transactions + framesOfView*one.views
	for field, value := range map[string]float64{
		"n": 1, "commits": one.transactions, "transactions": one.transactions, "events": one.events,
		"work_statements": one.work, "frame_statements": frames, "statements": one.work + frames,
		"more_call_transactions":    (many.transactions - one.transactions) / moreCalls,
		"more_call_work_statements": (many.work - one.work) / moreCalls,
		"more_call_events":          (many.events - one.events) / moreCalls,
	} {
		l.report.set(name, field, value)
	}
	return nil
}

// isQuietServer is a lease without heartbeats and orphan scans during a measurement.
const isQuietServer = time.Hour

// logged runs a turn of calls, one per step, and reads the statements in the server's log. With
// profiles the statements are listed there.
func (l *runner) logged(ctx context.Context, calls int) (c cost, err error) {
	at, err := l.databaseURL(ctx, "logged")
	if err != nil {
		return c, err
	}
	database := at.URL[strings.LastIndex(at.URL[:strings.Index(at.URL, "?")], "/")+1 : strings.Index(at.URL, "?")]
	if err := l.server.cluster.Exec(ctx, fmt.Sprintf(tellStatements, database)); err != nil {
		return c, err
	}
	at.Lease = isQuietServer
	w, err := openEngineRig(ctx, at)
	if err != nil {
		return c, err
	}
	defer w.close()
	if err := w.warm(ctx); err != nil {
		return c, err
	}
	var before int
	events, err := w.watchedTurn(ctx, calls, func() {
		text, _ := os.ReadFile(l.serverLog()) // it is read again below, where an error is returned
		before = len(text)
	})
	if err != nil {
		return c, err
	}
	text, err := os.ReadFile(l.serverLog())
	if err != nil {
		return c, fmt.Errorf("read the server's log: %w", err)
	}
	told := parseServerLog(string(text[before:]))
	c = told.cost()
	c.events = float64(events)
	if l.profile == "" {
		return c, nil
	}
	return c, os.WriteFile(filepath.Join(l.profile, fmt.Sprintf("turn_of_%d_postgres.statements.txt", calls)),
		[]byte(told.String()), 0o644)
}

// serverLog returns the log file of the server.
func (l *runner) serverLog() string {
	return filepath.Join(filepath.Dir(l.server.cluster.Socket()), "log")
}

// serverStatements contains the statements of the server by transaction, each from its BEGIN to its
// end.
type serverStatements [][]string

// parseServerLog parses a log. Statements outside of transactions do not belong to the turn:
// notifications to other processes, and polls for theirs.
func parseServerLog(text string) (all serverStatements) {
	said := regexp.MustCompile(`(?m)^[^\[\n]*\[(\d+)\] LOG:  (?:statement|execute [^:]*): (.*(?:\n\t.*)*)`)
	open := map[string][]string{} // by process
	for _, m := range said.FindAllStringSubmatch(text, -1) {
		process, statement := m[1], strings.Join(strings.Fields(m[2]), " ")
		if len(open[process]) == 0 && !strings.HasPrefix(statement, "BEGIN") {
			continue
		}
		open[process] = append(open[process], statement)
		if statement == "COMMIT" || statement == "ROLLBACK" {
			all = append(all, open[process])
			delete(open, process)
		}
	}
	return all
}

// cost counts transactions, views and their statements. A view that reads only events belongs to a
// watcher, not to the turn.
func (all serverStatements) cost() (c cost) {
	for _, one := range all {
		work := one[1 : len(one)-1]
		switch {
		case !strings.Contains(one[0], "READ ONLY"):
			c.transactions++
		case len(work) == 1 && strings.Contains(work[0], "FROM event"):
			continue
		default:
			c.views++
		}
		c.work += float64(len(work))
	}
	return c
}

// String returns one line per statement, and a blank line after each transaction.
func (all serverStatements) String() string {
	var b strings.Builder
	for _, one := range all {
		b.WriteString(strings.Join(one, "\n") + "\n\n")
	}
	return b.String()
}

// counted runs a turn of calls, one per step, with the counting store. With profiles its statements
// are listed there.
func (l *runner) counted(ctx context.Context, calls int) (c cost, err error) {
	dir, err := l.folder("counted")
	if err != nil {
		return c, err
	}
	st, err := openCounted(ctx, dir)
	if err != nil {
		return c, err
	}
	w, err := openEngineRig(ctx, engineRigConfig{Store: st})
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
	return c, os.WriteFile(filepath.Join(l.profile, fmt.Sprintf("turn_of_%d.statements.txt", calls)), list.Bytes(),
		0o644)
}

// errIdle ends the watch of a turn.
var errIdle = errors.New("idle")

// watchedTurn sends the message of a turn to a session that already had one, calls began just
// before, and returns when the journal says that the session is idle, with the number of its
// events. It adds only the reads of a watcher to the counts.
func (w *engineRig) watchedTurn(ctx context.Context, calls int, began func()) (events int, err error) {
	id, err := w.session(ctx, agent(false))
	if err != nil {
		return 0, err
	}
	if err := w.waitIdle(ctx, id, order{}); err != nil {
		return 0, err
	}
	before, err := w.Sessions().Get(ctx, id)
	if err != nil {
		return 0, err
	}
	began()
	if _, err := w.Send(ctx, id, order{tool: "noop", all: calls, step: 1}.message()); err != nil {
		return 0, err
	}
	return w.waitIdleTurn(ctx, id, before.LastSeq)
}

// waitIdleTurn returns when the journal says that the session is idle, with the number of its
// events since after.
func (w *engineRig) waitIdleTurn(ctx context.Context, id perdure.SessionID, after int64) (events int, err error) {
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
