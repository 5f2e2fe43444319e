package temporal

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Session drives one session as often as its journal has something new, and completes when it was
// idle for a minute. A signal that arrives while it completes makes the server repeat the task.
func (w workflows) Session(ctx workflow.Context, s sessionState) error {
	wakes := workflow.GetSignalChannel(ctx, wakeSignal)
	for {
		receive(wakes, s.heard)
		switch {
		case canceled(ctx):
			stop(ctx, interruptActivity, s.ID)
			return ctx.Err()
		case s.due(workflow.Now(ctx)):
			wait := w.drive(ctx, &s)
			if canceled(ctx) {
				return ctx.Err()
			}
			pause(ctx, wait)
		default:
			if !s.await(ctx, wakes) {
				return nil
			}
		}
		if !canceled(ctx) && long(ctx) {
			receive(wakes, s.heard)
			return workflow.NewContinueAsNewError(ctx, sessionType, s)
		}
	}
}

// drive runs one activity and returns how long to wait before the next one.
func (w workflows) drive(ctx workflow.Context, s *sessionState) time.Duration {
	told := s.Seq
	var rest driveResult
	j := job{s.options(ctx, w.heartbeat), driveActivity, interruptActivity}
	if err := perform(ctx, j, s.next(s.ID), &rest); err != nil {
		return s.failed(err)
	}
	taken, wait := s.returned(rest.workResult)
	if taken {
		if rest.Seq != 0 && rest.Seq < told { // deleted meanwhile, and imported with a shorter journal
			s.Seq, told = rest.Seq, rest.Seq
		}
		// The driver has read at least the events from before the activity began.
		s.Seen, s.Again = max(told, rest.Seq), rest.Again
	}
	return wait
}

// heard notes what a signal says.
func (s *sessionState) heard(w wake) {
	s.Seq = max(s.Seq, w.Seq)
	if w.Due {
		s.Again = 1
	}
	s.placement.heard(w)
}

// due reports whether the session is to be driven.
func (s *sessionState) due(now time.Time) bool {
	return s.Seq > s.Seen || s.Again != 0 && s.Again <= now.UnixMilli()
}

// await waits until the session may be due. false: it was idle for a minute, and nothing will be.
func (s *sessionState) await(ctx workflow.Context, wakes workflow.ReceiveChannel) bool {
	d := linger
	if s.Again != 0 {
		d = max(time.UnixMilli(s.Again).Sub(workflow.Now(ctx)), time.Millisecond)
	}
	heard := false
	await(ctx, wakes, d, func(w wake) {
		heard = true
		s.heard(w)
	})
	return heard || s.Again != 0 || canceled(ctx)
}
