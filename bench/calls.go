package main

import (
	"context"
	"errors"
	"fmt"

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
	for round := range l.count(5, 1) {
		l.say("calls, %d callers, round %d", callers, round+1)
		calls := l.count(callsASession, 2)
		if err := bareCalls(f, callers, 2*calls, &bare); err != nil {
			return err
		}
		if err := durableCalls(ctx, w, burst{callers, order{tool: "noop", all: calls, step: 1}}, &single); err != nil {
			return err
		}
		if err := durableCalls(ctx, w, burst{callers, order{tool: "noop", all: calls, step: bigStep}}, &many); err != nil {
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
			l.report.atLeast(figure, "floor_ratio", 0.4)
		}
	}
	return nil
}

// reportCalls writes the rounds of one kind of call.
func (l *lab) reportCalls(figure string, t throughput) {
	l.report.rates(figure, "calls_per_s", t.perSecond)
	l.report.set(figure, "cpu_us", median(t.cpuMicros))
}

// bareCalls is the floor: callers at once, each making calls of two transactions through the committer.
func bareCalls(f *floor, callers, each int, into *throughput) error {
	took, err := together(callers, func(worker int) error {
		c := newBareCaller(fmt.Sprintf("%d_%d", worker, f.next.Add(1)))
		for range each {
			if err := c.call(func(w write) error { return c.through(f, w) }); err != nil {
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
