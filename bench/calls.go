package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// callsASession is how many calls a session makes in a round of measureCalls, after its start.
const callsASession = 32

// errLeft is a call that should have been settled and is not.
var errLeft = errors.New("the ledger is short of calls")

// bigStep is how many calls a message of the model holds in the variant in which the model has the smallest part.
const bigStep = 32

// measureCalls measures durable calls a second: claim, an at_most_once tool that does nothing, settlement and all events,
// acknowledged by syncs. Floor and Perdure take turns.
func measureCalls(ctx context.Context, l *lab) error {
	for _, callers := range []int{1, 16, 64} {
		if err := l.callsOf(ctx, callers); err != nil {
			return err
		}
	}
	return nil
}

// callsOf measures one number of callers: of the floor, and of Perdure with one call a step and with many.
func (l *lab) callsOf(ctx context.Context, callers int) error {
	f, err := l.floor(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	w, err := l.world(ctx, worldConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	var bare, single, many throughput
	atOnce := l.count(callers, min(callers, 8))
	for round := range l.count(5, 1) {
		l.say("calls, %d callers, round %d", callers, round+1)
		calls := l.count(callsASession, 2)
		if err := l.bareCalls(ctx, f, atOnce, 2*calls, &bare); err != nil {
			return err
		}
		if err := durableCalls(ctx, w, burst{atOnce, order{tool: "noop", all: calls, step: 1}}, &single); err != nil {
			return err
		}
		if err := durableCalls(ctx, w, burst{atOnce, order{tool: "noop", all: calls, step: bigStep}}, &many); err != nil {
			return err
		}
	}
	floorName := fmt.Sprintf("floor_calls_%d", callers)
	l.reportCalls(floorName, bare)
	l.reportCalls(fmt.Sprintf("calls_%d_steps_of_1", callers), single)
	l.reportCalls(fmt.Sprintf("calls_%d_steps_of_32", callers), many)
	for _, figure := range []string{fmt.Sprintf("calls_%d_steps_of_1", callers), fmt.Sprintf("calls_%d_steps_of_32", callers)} {
		l.report.ratio(figure, floorName, "calls_per_s", "floor_ratio")
		l.report.ratio(figure, floorName, "cpu_us", "floor_cpu_ratio")
		if callers == 64 {
			l.report.atLeast(figure, "floor_ratio", goal{sqlite: 0.4, postgres: 0.55})
		}
	}
	return nil
}

// reportCalls writes the rounds of one kind of call.
func (l *lab) reportCalls(figure string, t throughput) {
	l.report.rates(figure, "calls_per_s", t.perSecond)
	l.report.set(figure, "cpu_us", median(t.cpuMicros))
}

// bareCalls is the floor: callers at once, each making calls of two transactions.
func (l *lab) bareCalls(ctx context.Context, f floor, callers, each int, into *throughput) error {
	places, err := f.callers(ctx, callers)
	if err != nil {
		return err
	}
	took, err := together(callers, func(worker int) error {
		c := l.bareCaller()
		for range each {
			if err := c.call(places[worker]); err != nil {
				return err
			}
		}
		return nil
	})
	into.add(callers*each, took)
	return err
}

// burst is an order to sessions at once.
type burst struct {
	sessions int
	order    order
}

// durableCalls is Perdure: sessions at once, each with one turn of calls. The clock runs from the messages to the
// last word of the last turn, which comes after its settlements; the sessions are there before, and what was settled is
// counted after.
func durableCalls(ctx context.Context, w *world, b burst, into *throughput) error {
	ids := make([]perdure.SessionID, b.sessions)
	if _, err := together(b.sessions, func(i int) (err error) {
		ids[i], err = w.session(ctx, agent(false))
		return err
	}); err != nil {
		return err
	}
	took, err := w.turns(ctx, ids, b.order)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if n, err := w.settled(ctx, id); err != nil || n != b.order.all {
			return fmt.Errorf("%d of %d calls were settled: %w", n, b.order.all, errors.Join(err, errLeft))
		}
	}
	into.add(b.sessions*b.order.all, took)
	return nil
}

// turns runs a turn in each session at once, and says what it took to the last word. Then it waits for their rest.
func (w *world) turns(ctx context.Context, ids []perdure.SessionID, o order) (spent, error) {
	took, err := together(len(ids), func(i int) error { return w.turn(ctx, ids[i], o) })
	if err != nil {
		return took, err
	}
	_, err = together(len(ids), func(i int) error { return w.WaitIdle(ctx, ids[i]) })
	return took, err
}

// entries notes when a tool was entered. Its length is bounded by the calls of one turn.
type entries struct {
	mu sync.Mutex
	at []time.Time // guarded by mu
}

// note adds the present moment.
func (e *entries) note(perdure.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at = append(e.at, time.Now())
}

// take returns the times between neighbours and begins anew.
func (e *entries) take() sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s sample
	for i := 1; i < len(e.at); i++ {
		s = append(s, e.at[i].Sub(e.at[i-1]))
	}
	e.at = nil
	return s
}

// measureSequential measures one durable call after another in one session: the time from a tool's entry to its next
// entry. The floor's is a claim and a settlement, each committed on its own.
func measureSequential(ctx context.Context, l *lab) error {
	f, err := l.floor(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	var seen entries
	w, err := l.world(ctx, worldConfig{Tools: &tools{called: seen.note}})
	if err != nil {
		return err
	}
	defer w.close()
	var bare, single, many sample
	for range l.count(20, 1) {
		s, err := l.bareSequence(f, l.count(callsASession, 4))
		if err != nil {
			return err
		}
		bare = append(bare, s...)
		if s, err = durableSequence(ctx, w, &seen, order{tool: "noop", all: l.count(callsASession, 4), step: 1}); err != nil {
			return err
		}
		single = append(single, s...)
		if s, err = durableSequence(ctx, w, &seen, order{tool: "noop", all: l.count(callsASession, 4), step: bigStep}); err != nil {
			return err
		}
		many = append(many, s...)
	}
	l.report.latencies("floor_call_sequential", bare)
	l.report.latencies("call_sequential_steps_of_1", single)
	l.report.latencies("call_sequential_steps_of_32", many)
	for _, figure := range []string{"call_sequential_steps_of_1", "call_sequential_steps_of_32"} {
		l.report.ratio(figure, "floor_call_sequential", "p50_us", "floor_p50_ratio")
		l.report.ratio(figure, "floor_call_sequential", "p99_us", "floor_p99_ratio")
		l.report.atMost(figure, "floor_p50_ratio", goal{sqlite: 1.6, postgres: 2})
	}
	return nil
}

// bareSequence makes calls of the floor, in this goroutine.
func (l *lab) bareSequence(f floor, n int) (sample, error) {
	c, apply := l.bareCaller(), f.alone()
	var s sample
	for range n {
		began := time.Now()
		if err := c.call(apply); err != nil {
			return nil, err
		}
		s = append(s, time.Since(began))
	}
	return s, nil
}

// durableSequence runs a turn of calls, strictly one after another, in a new session.
func durableSequence(ctx context.Context, w *world, seen *entries, o order) (sample, error) {
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return nil, err
	}
	seen.take()
	if err := w.rested(ctx, id, o); err != nil {
		return nil, err
	}
	return seen.take(), nil
}
