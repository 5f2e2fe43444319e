package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

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
		s, err := bareSequence(f, l.count(callsASession, 4))
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
		l.report.atMost(figure, "floor_p50_ratio", 1.6)
	}
	return nil
}

// bareSequence makes calls of the floor, in this goroutine.
func bareSequence(f *floor, n int) (sample, error) {
	c := newBareCaller(fmt.Sprintf("sequence_%d", f.next.Add(1)))
	var s sample
	for range n {
		began := time.Now()
		if err := c.call(func(w write) error { return f.commit(w) }); err != nil {
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
