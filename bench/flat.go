package main

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// The goal of measurements that should not depend on the amount of data.
const maxSlowdown = 1.5

// scalingResult contains the two figures of a size, measured alternately with the other sizes.
type scalingResult struct {
	name  string
	one   sample     // sequential calls
	calls throughput // of several sessions
}

// writeFlat reports the figures of sizes, each relative to the first.
func writeFlat(l *runner, sizes []*scalingResult) {
	for i, s := range sizes {
		l.report.latencies(s.name, s.one)
		l.report.set(s.name, "calls_per_s", median(s.calls.perSecond))
		l.report.set(s.name, "cpu_us", median(s.calls.cpuMicros))
		if i == 0 {
			continue
		}
		l.report.ratio(s.name, sizes[0].name, "p50_us", "p50_growth_ratio")
		l.report.ratio(s.name, sizes[0].name, "cpu_us", "cpu_growth_ratio")
		l.report.set(s.name, "calls_slowdown_ratio",
			l.report.value(sizes[0].name, "calls_per_s")/median(s.calls.perSecond))
		l.report.atMost(s.name, "p50_growth_ratio", goal{sqlite: maxSlowdown})
		l.report.atMost(s.name, "calls_slowdown_ratio", goal{sqlite: maxSlowdown})
	}
}

// The number of concurrent sessions in these measurements, and the calls that each makes in a
// round.
const (
	journalSessions = 4
	journalCalls    = 16
	manySessions    = 16
	manyCalls       = 16
)

// measureJournal measures calls in sessions with a short journal, and in others with a long one.
func measureJournal(ctx context.Context, l *runner) error {
	var seen entries
	w, err := l.world(ctx, engineRigConfig{Tools: &tools{called: seen.note}})
	if err != nil {
		return err
	}
	defer w.close()
	long, err := w.withJournals(ctx, l.count(10_000, 100))
	if err != nil {
		return err
	}
	l.progressf("journal: the long journals are ready")
	small, large := &scalingResult{name: "journal_small"}, &scalingResult{name: "journal_large"}
	for range l.count(10, 1) {
		short, err := w.withJournals(ctx, 10)
		if err != nil {
			return err
		}
		if err := w.flatRound(ctx, l, &seen, small, short); err != nil {
			return err
		}
		if err := w.flatRound(ctx, l, &seen, large, long); err != nil {
			return err
		}
	}
	writeFlat(l, []*scalingResult{small, large})
	l.report.set("journal_small", "events", 10)
	l.report.set("journal_large", "events", float64(l.count(10_000, 100)))
	return nil
}

// withJournals creates sessions whose journals have at least n events, by turns of calls.
func (w *engineRig) withJournals(ctx context.Context, n int) ([]perdure.SessionID, error) {
	ids := make([]perdure.SessionID, journalSessions)
	_, err := maxConcurrent(journalSessions, func(i int) (err error) {
		if ids[i], err = w.session(ctx, agent(false)); err != nil {
			return err
		}
		for {
			s, err := w.Sessions().Get(ctx, ids[i])
			if err != nil || s.LastSeq >= int64(n) {
				return err
			}
			o := order{}
			if n > 100 {
				o = order{tool: "noop", all: 512, step: 64}
			}
			if err := w.waitIdle(ctx, ids[i], o); err != nil {
				return err
			}
		}
	})
	return ids, err
}

// flatRound measures the sessions once: the first one alone, then all concurrently.
func (w *engineRig) flatRound(ctx context.Context, l *runner, seen *entries, into *scalingResult, ids []perdure.SessionID) error {
	o := order{tool: "noop", all: l.count(journalCalls, 4), step: 1}
	seen.take()
	if err := w.waitIdle(ctx, ids[0], o); err != nil {
		return err
	}
	into.one = append(into.one, seen.take()...)
	took, err := w.turns(ctx, ids, o)
	seen.take()
	into.calls.add(len(ids)*o.all, took)
	return err
}

// measureSessions measures calls in databases with few sessions and with many.
func measureSessions(ctx context.Context, l *runner) error {
	sizes := []int{1, l.count(100, 5), l.count(10_000, 20)}
	names := []string{"sessions_small", "sessions_medium", "sessions_large"}
	var seen entries
	var worlds []*engineRig
	var flats []*scalingResult
	for i, n := range sizes {
		w, err := l.world(ctx, engineRigConfig{Tools: &tools{called: seen.note}})
		if err != nil {
			return err
		}
		defer w.close()
		if err := w.fill(ctx, n); err != nil {
			return err
		}
		worlds, flats = append(worlds, w), append(flats, &scalingResult{name: names[i]})
		l.progressf("sessions: %d are ready", n)
	}
	for range l.count(6, 1) {
		for i, w := range worlds {
			if err := w.sessionsRound(ctx, l, &seen, flats[i]); err != nil {
				return err
			}
		}
	}
	writeFlat(l, flats)
	for i, n := range sizes {
		l.report.set(names[i], "sessions", float64(n))
	}
	return nil
}

// sessionsRound measures new sessions: one alone, then several concurrently.
func (w *engineRig) sessionsRound(ctx context.Context, l *runner, seen *entries, into *scalingResult) error {
	o := order{tool: "noop", all: l.count(manyCalls, 3), step: 1}
	s, err := durableSequence(ctx, w, seen, o)
	if err != nil {
		return err
	}
	into.one = append(into.one, s...)
	err = durableCalls(ctx, w, burst{l.count(manySessions, 2), o}, &into.calls)
	seen.take()
	return err
}

// filledAtOnce is the number of sessions that one transaction of fill creates.
const filledAtOnce = 100

// eventsOfFilled is the number of events of a filled session after its first one.
const eventsOfFilled = 9

// fill adds idle sessions to the store, each with ten events and one settled call.
func (w *engineRig) fill(ctx context.Context, n int) error {
	for left := n; left > 0; left -= filledAtOnce {
		err := w.store.InTx(ctx, func(tx store.Tx) error {
			for range min(left, filledAtOnce) {
				if err := fillOne(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fill the store: %w", err)
		}
	}
	return nil
}

func fillOne(tx store.Tx) error {
	id, worker := core.NewID[perdure.SessionID](), core.NewID[perdure.WorkerID]()
	if err := tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted, CreatedAt: tx.Now(),
		UpdatedAt: tx.Now()}); err != nil {
		return err
	}
	events := []perdure.Event{{Actor: "user", Fact: perdure.SessionCreated{Agent: agent(false)}}}
	for range eventsOfFilled {
		events = append(events, perdure.Event{Actor: "user",
			Fact: perdure.MessageReceived{Message: perdure.Text("filled"), Source: "user"}})
	}
	for i := range events {
		events[i].ID, events[i].At, events[i].Session = core.NewID[perdure.EventID](), tx.Now(), id
	}
	taken, err := tx.Sessions().Acquire(id, worker)
	if err != nil {
		return err
	}
	if err := tx.Journal().Append(id, events); err != nil {
		return err
	}
	call := perdure.Call{
		Key: perdure.CallKey{Session: id, Call: "call_filled"}, Tool: "noop", Args: numbered(1), Fingerprint: "filled",
		Class: perdure.AtMostOnce, Token: perdure.Token(id), Worker: worker, Epoch: taken.Epoch,
	}
	if _, _, err := tx.Calls().Claim(call, func(perdure.WorkerID) bool { return false }); err != nil {
		return err
	}
	result := perdure.ToolResult{CallID: call.Key.Call, Result: numbered(1)}
	if err := tx.Calls().Settle(call.Key, call.Token, perdure.CallSettled, result); err != nil {
		return err
	}
	return tx.Sessions().Release(id, taken.Epoch)
}
