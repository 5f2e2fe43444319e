package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// callsASession is the number of calls that a session makes in a round of measureCalls, after its
// start.
const callsASession = 32

// errLeft reports calls that should have been settled but were not.
var errLeft = errors.New("the ledger is short of calls")

// bigStep is the number of calls per model message in the variant with the least model work.
const bigStep = 32

// measureCalls measures durable calls per second: claim, an at_most_once tool that does nothing,
// settlement and all events, with syncs. Floor and Perdure alternate.
func measureCalls(ctx context.Context, l *runner) error {
	for _, callers := range []int{1, 16, 64} {
		if err := l.callsOf(ctx, callers); err != nil {
			return err
		}
	}
	return nil
}

// callsOf measures one number of callers: the floor, and Perdure with one call per step and with
// many.
func (l *runner) callsOf(ctx context.Context, callers int) error {
	f, err := l.floor(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	w, err := l.world(ctx, engineRigConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	var bare, single, many throughput
	atOnce := l.count(callers, min(callers, 8))
	for round := range l.count(5, 1) {
		l.progressf("calls, %d callers, round %d", callers, round+1)
		calls := l.count(callsASession, 2)
		if err := l.bareCalls(ctx, f, atOnce, 2*calls, &bare); err != nil {
			return err
		}
		if err := durableCalls(ctx, w, burst{atOnce, order{tool: "noop", all: calls, step: 1}}, &single); err != nil {
			return err
		}
		if err := durableCalls(ctx, w, burst{atOnce, order{tool: "noop", all: calls, step: bigStep}},
			&many); err != nil {
			return err
		}
	}
	floorName := fmt.Sprintf("floor_calls_%d", callers)
	l.reportCalls(floorName, bare)
	l.reportCalls(fmt.Sprintf("calls_%d_steps_of_1", callers), single)
	l.reportCalls(fmt.Sprintf("calls_%d_steps_of_32", callers), many)
	for _, figure := range []string{fmt.Sprintf("calls_%d_steps_of_1", callers),
		fmt.Sprintf("calls_%d_steps_of_32", callers)} {
		l.report.ratio(figure, floorName, "calls_per_s", "floor_ratio")
		l.report.ratio(figure, floorName, "cpu_us", "floor_cpu_ratio")
		if callers == 64 {
			l.report.atLeast(figure, "floor_ratio", goal{sqlite: 0.4, postgres: 0.55})
		}
	}
	return nil
}

// reportCalls writes the rounds of one kind of call.
func (l *runner) reportCalls(figure string, t throughput) {
	l.report.rates(figure, "calls_per_s", t.perSecond)
	l.report.set(figure, "cpu_us", median(t.cpuMicros))
}

// bareCalls measures the floor: concurrent callers, each making calls of two transactions.
func (l *runner) bareCalls(ctx context.Context, f floor, callers, each int, into *throughput) error {
	places, err := f.callers(ctx, callers)
	if err != nil {
		return err
	}
	took, err := maxConcurrent(callers, func(worker int) error {
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

// burst is an order to several sessions at once.
type burst struct {
	sessions int
	order    order
}

// durableCalls measures Perdure: concurrent sessions, each with one turn of calls. The time runs
// from the messages to the end of the last turn, which comes after its settlements. The sessions
// are created before, and the settled calls are counted afterwards.
func durableCalls(ctx context.Context, w *engineRig, b burst, into *throughput) error {
	ids := make([]perdure.SessionID, b.sessions)
	if _, err := maxConcurrent(b.sessions, func(i int) (err error) {
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

// turns runs a turn in each session concurrently, and returns the time until the last answer. Then
// it waits until all sessions are idle.
func (w *engineRig) turns(ctx context.Context, ids []perdure.SessionID, o order) (cpuTimes, error) {
	took, err := maxConcurrent(len(ids), func(i int) error { return w.turn(ctx, ids[i], o) })
	if err != nil {
		return took, err
	}
	_, err = maxConcurrent(len(ids), func(i int) error { return w.Sessions().WaitIdle(ctx, ids[i]) })
	return took, err
}

// entries records when a tool was entered. Its length is bounded by the calls of one turn.
type entries struct {
	mu sync.Mutex
	at []time.Time // guarded by mu
}

// note adds the current time.
func (e *entries) note(perdure.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at = append(e.at, time.Now())
}

// take returns the times between neighbours and resets.
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

// measureSequential measures sequential durable calls in one session: the time from one entry of a
// tool to the next. The floor is a claim and a settlement, each committed separately.
func measureSequential(ctx context.Context, l *runner) error {
	f, err := l.floor(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	var seen entries
	w, err := l.world(ctx, engineRigConfig{Tools: &tools{called: seen.note}})
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
		if s, err = durableSequence(ctx, w, &seen,
			order{tool: "noop", all: l.count(callsASession, 4), step: 1}); err != nil {
			return err
		}
		single = append(single, s...)
		if s, err = durableSequence(ctx, w, &seen,
			order{tool: "noop", all: l.count(callsASession, 4), step: bigStep}); err != nil {
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
func (l *runner) bareSequence(f floor, n int) (sample, error) {
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

// durableSequence runs a turn of sequential calls in a new session.
func durableSequence(ctx context.Context, w *engineRig, seen *entries, o order) (sample, error) {
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return nil, err
	}
	seen.take()
	if err := w.waitIdle(ctx, id, o); err != nil {
		return nil, err
	}
	return seen.take(), nil
}
