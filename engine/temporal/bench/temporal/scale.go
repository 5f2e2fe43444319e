package main

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// turnRate is how many turns some processes complete, with a number of tool calls in each turn.
type turnRate struct {
	Processes int     `json:"processes"`
	Calls     int     `json:"calls"`
	Rate      float64 `json:"turns_per_second"` // 64 sessions at once
	Events    int64   `json:"history_events"`   // of a session's workflow, for one turn
}

// turns measures the rate of turns with 1, 2 and 4 processes that work.
func (l *lab) turns(ctx context.Context, f *figures) error {
	for len(l.workers) > 1 {
		last := len(l.workers) - 1
		l.workers[last].end()
		l.workers = l.workers[:last]
	}
	for _, processes := range []int{1, 2, 4} {
		for len(l.workers) < processes {
			if err := l.addWorker(ctx); err != nil {
				return err
			}
		}
		pause(ctx, acquaintance)
		for _, calls := range []int{0, 1, 20} {
			one, err := l.turnRate(ctx, calls)
			if err != nil {
				return err
			}
			one.Processes = processes
			f.Turns = append(f.Turns, one)
		}
	}
	return nil
}

func (l *lab) turnRate(ctx context.Context, calls int) (turnRate, error) {
	t := turnRate{Calls: calls}
	sessions, err := l.sessions(ctx, together+1)
	if err != nil {
		return t, err
	}
	if err := l.turn(ctx, sessions[together], calls); err != nil {
		return t, err
	}
	about, err := l.engine.client.DescribeWorkflowExecution(ctx, prefix+"/session/"+string(sessions[together]), "")
	if err != nil {
		return t, fmt.Errorf("read a history: %w", err)
	}
	t.Events = about.GetWorkflowExecutionInfo().GetHistoryLength()
	began := time.Now()
	err = atOnce(l.options.turns, func(place, _ int) error { return l.turn(ctx, sessions[place], calls) })
	t.Rate = float64(l.options.turns) / time.Since(began).Seconds()
	return t, err
}

// sessions creates sessions.
func (l *lab) sessions(ctx context.Context, n int) ([]perdure.SessionID, error) {
	ids := make([]perdure.SessionID, n)
	return ids, atOnce(n, func(_, i int) error {
		s, err := l.engine.Sessions().Create(ctx, perdure.Agent{})
		ids[i] = s.ID
		return err
	})
}

// turn sends a message that is answered after some tool calls, and waits for the answer.
func (l *lab) turn(ctx context.Context, id perdure.SessionID, calls int) error {
	if _, err := l.engine.Send(ctx, id, perdure.Text(fmt.Sprintf("%d calls", calls))); err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	if err := l.engine.Sessions().WaitIdle(ctx, id); err != nil {
		return fmt.Errorf("wait for a session: %w", err)
	}
	return nil
}

// outage is what an absence of Temporal costs. The times count from its return.
type outage struct {
	Away    float64 `json:"away_seconds"`
	Waiting int     `json:"waiting"`   // messages that were accepted during the absence
	Moving  float64 `json:"moving_ms"` // until the last one's turn has started
	Ended   float64 `json:"ended_ms"`  // until the last one's turn has completed
	Lost    int     `json:"lost"`      // turns without the result of their call
	Held    int     `json:"held"`      // runs that were running
	Kept    int     `json:"held_kept"` // of these, those that still run in their first attempt
	Unknown int     `json:"unknown"`   // outcomes of any call
}

// outage kills the Temporal server under load, accepts messages, and starts it again.
func (l *lab) outage(ctx context.Context, f *figures) error {
	o := outage{Away: l.options.away.Seconds(), Waiting: l.options.waiting, Held: 16}
	sessions, err := l.sessions(ctx, o.Waiting)
	if err != nil {
		return err
	}
	held := make([]perdure.Task, o.Held)
	for i := range held {
		if held[i], err = l.held(ctx); err != nil {
			return err
		}
	}
	l.server.kill()
	began := time.Now()
	err = atOnce(o.Waiting, func(_, i int) error {
		_, err := l.engine.Send(ctx, sessions[i], perdure.Text("1 calls"))
		return err
	})
	if err != nil {
		return fmt.Errorf("send a message while Temporal is away: %w", err)
	}
	fmt.Fprintf(l.progress, "%d messages were accepted in %.1f s without Temporal\n", o.Waiting, time.Since(began).Seconds())
	pause(ctx, l.options.away-time.Since(began))
	if err := l.startTemporal(ctx, l.address); err != nil {
		return err
	}
	returned := time.Now()

	ends := make([]end, o.Waiting)
	err = atOnce(o.Waiting, func(_, i int) error {
		var err error
		ends[i], err = l.endOf(ctx, sessions[i], returned)
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range ends {
		o.Moving, o.Ended = max(o.Moving, e.moving), max(o.Ended, e.ended)
		o.Unknown += e.unknown
		if !e.settled {
			o.Lost++
		}
	}
	for _, task := range held {
		now, err := l.engine.Tasks().Get(ctx, task.ID)
		if err != nil {
			return fmt.Errorf("read a task: %w", err)
		}
		if now.State == perdure.TaskRunning && now.Attempt == task.Attempt {
			o.Kept++
		}
	}
	f.Outage = &o
	return nil
}

// end is what became of a message. The times are milliseconds after Temporal's return.
type end struct {
	moving, ended float64
	settled       bool // its one call has a result
	unknown       int
}

func (l *lab) endOf(ctx context.Context, id perdure.SessionID, returned time.Time) (end, error) {
	var e end
	if err := l.engine.Sessions().WaitIdle(ctx, id); err != nil {
		return e, fmt.Errorf("wait for a session: %w", err)
	}
	events, err := l.engine.Events(ctx, id, 0, 100)
	if err != nil {
		return e, fmt.Errorf("read a journal: %w", err)
	}
	for _, event := range events {
		after := float64(event.At.Sub(returned).Microseconds()) / 1000
		switch event.Fact.(type) {
		case perdure.TurnStarted:
			e.moving = after
		case perdure.TurnCompleted:
			e.ended = after
		}
	}
	calls, err := l.engine.Calls().List(ctx, id)
	if err != nil {
		return e, fmt.Errorf("list calls: %w", err)
	}
	for _, call := range calls {
		if call.State == perdure.CallUnknown {
			e.unknown++
		}
	}
	e.settled = len(calls) == 1 && calls[0].State == perdure.CallSettled
	return e, nil
}
