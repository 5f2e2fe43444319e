package perdure

import (
	"fmt"
	"time"
)

// ScheduleStep is what a schedule does about one nominal time. Without an Outcome it does nothing
// now.
type ScheduleStep struct {
	Schedule Schedule // as it is after the step
	Nominal  time.Time
	Outcome  FireOutcome // Fired, FireQueued or one of the skips
	Reason   string      // of a skip or a late fire
	Merged   int         // earlier nominal times that this one stands for
	Late     bool        // the fire makes up for a missed one
	Held     bool        // without an Outcome: the next fire waits until the previous one ends
	Replace  bool        // with FireQueued: the previous fire has to be canceled
}

// Step returns what a schedule does at now: at most one thing, so that each fire is one commit.
// busy says that the previous fire is still running. Step is pure: the caller records the step, and
// asks again for the next one.
func (s Schedule) Step(t Timing, now time.Time, busy bool, r ScheduleRules) ScheduleStep {
	none := ScheduleStep{Schedule: s}
	if !s.Enabled {
		return none
	}
	if !s.QueuedNominal.IsZero() && !busy {
		step := ScheduleStep{Nominal: s.QueuedNominal, Outcome: Fired, Reason: "it waited for the previous fire to end"}
		s.QueuedNominal = time.Time{}
		step.Schedule = s.withFire(step.Nominal, now)
		if s.Nominal.IsZero() {
			step.Schedule.Enabled = false
		}
		return step
	}
	none.Held = !s.QueuedNominal.IsZero()
	if s.NextAt.IsZero() || s.NextAt.After(now) {
		return none
	}
	l := inspection{t: t, now: now, busy: busy, rules: r}
	if now.Sub(s.NextAt) <= r.Grace {
		return s.decide(l, s.Nominal, ScheduleStep{})
	}
	return s.catchUp(l)
}

// inspection is one inspection of a schedule: the time, and what is known at that time.
type inspection struct {
	t     Timing
	now   time.Time
	busy  bool
	rules ScheduleRules
}

// catchUp decides about nominal times that were missed.
func (s Schedule) catchUp(l inspection) ScheduleStep {
	missed := s.missed(l.t, l.now, l.rules.Grace)
	switch {
	case s.Missed == MissedAll:
		return s.fireMissed(l, missed)
	case s.Missed == MissedSkip:
		return s.skip(l.t, missed, SkippedMissed, "missed: the engine was not running, and the policy is skip")
	}
	late := ScheduleStep{Merged: missed.n - 1, Late: true, Reason: missed.text()}
	// A fire that is on time stands for all missed ones.
	if next, ok := l.t.Next(missed.last); ok && !s.trigger(next).After(l.now) {
		late.Merged++
		return s.decide(l, next, late)
	}
	return s.decide(l, missed.last, late)
}

// fireMissed fires the oldest missed nominal time inside the window. They fire one after another,
// unless they may overlap.
func (s Schedule) fireMissed(l inspection, missed nominalRange) ScheduleStep {
	first := missed.first
	if oldest := l.now.Add(-s.Window); first.Before(oldest) {
		next, ok := l.t.Next(oldest.Add(-time.Microsecond))
		if first = next; !ok {
			first = missed.last.Add(time.Microsecond)
		}
	}
	if inWindow := s.between(l.t, first, missed.last); l.rules.MaxCatchup > 0 && inWindow.n > l.rules.MaxCatchup {
		for range inWindow.n - l.rules.MaxCatchup {
			first, _ = l.t.Next(first)
		}
	}
	if first.After(missed.first) {
		dropped := s.between(l.t, missed.first, first.Add(-time.Microsecond))
		return s.skip(l.t, dropped, SkippedMissed,
			"missed: the engine was not running, and the time is outside the catch-up window or limit")
	}
	if l.busy && s.Overlap != OverlapAllow {
		return ScheduleStep{Schedule: s, Held: true}
	}
	l.busy = false
	return s.decide(l, first, ScheduleStep{Late: true, Reason: "late: the engine was not running"})
}

// decide fires a nominal time, or applies the overlap policy while the previous fire is running.
func (s Schedule) decide(l inspection, nominal time.Time, step ScheduleStep) ScheduleStep {
	step.Nominal, step.Outcome = nominal, Fired
	s.DecidedUntil = nominal
	switch {
	case l.busy && !s.QueuedNominal.IsZero():
		step.Outcome = SkippedOverlap
		step.Reason = "the previous fire is still running, and another one is already queued"
	case l.busy && s.Overlap == OverlapSkip:
		step.Outcome, step.Reason = SkippedOverlap, "the previous fire is still running"
	case l.busy && (s.Overlap == OverlapQueue || s.Overlap == OverlapReplace):
		step.Outcome, step.Reason = FireQueued, "the previous fire is still running"
		step.Replace = s.Overlap == OverlapReplace
		s.QueuedNominal = nominal
	default:
		s = s.withFire(nominal, l.now)
	}
	step.Schedule = s.advanced(l.t)
	return step
}

// withFire records a fire.
func (s Schedule) withFire(nominal, now time.Time) Schedule {
	s.LastFire, s.LastAt = nominal, now
	s.Count++
	return s
}

// skip skips a range of nominal times. The recorded time is the last of them.
func (s Schedule) skip(t Timing, over nominalRange, outcome FireOutcome, reason string) ScheduleStep {
	s.DecidedUntil = over.last
	return ScheduleStep{Schedule: s.advanced(t), Nominal: over.last, Outcome: outcome, Reason: reason, Merged: over.n - 1}
}

// Triggered returns the step of a manual fire. It fires even while the previous one is running, and
// does not change the next nominal time.
func (s Schedule) Triggered(nominal, now time.Time, reason string) ScheduleStep {
	return ScheduleStep{Schedule: s.withFire(nominal, now), Nominal: nominal, Outcome: Fired, Reason: reason}
}

// SkippedForBudget turns a step that would fire into a skip, because the session has no budget.
func (s Schedule) SkippedForBudget(step ScheduleStep, why string) ScheduleStep {
	next := step.Schedule
	next.LastFire, next.LastAt, next.Count = s.LastFire, s.LastAt, s.Count
	step.Schedule, step.Outcome, step.Reason, step.Late = next, SkippedBudget, why, false
	return step
}

// nominalRange is a range of consecutive nominal times.
type nominalRange struct {
	first, last time.Time
	n           int // at most maxCountedFires
}

func (m nominalRange) text() string {
	if m.n == 1 {
		return "late: the engine was not running"
	}
	return fmt.Sprintf("%d fires since %s were missed: the engine was not running",
		m.n, m.first.Format(scheduleTimeLayout))
}

// missed returns the nominal times, from the next one on, whose grace is over.
func (s Schedule) missed(t Timing, now time.Time, grace time.Duration) nominalRange {
	over := func(nominal time.Time) bool { return now.Sub(s.trigger(nominal)) > grace }
	m := nominalRange{first: s.Nominal, last: s.Nominal, n: 1}
	for {
		next, ok := t.Next(m.last)
		if !ok || !over(next) {
			return m
		}
		m.last = next
		if m.n++; m.n >= maxCountedFires {
			m.last = s.lastWhere(t, m.last, now, over)
			return m
		}
	}
}

// lastWhere returns the last nominal time for which over holds. It searches backwards from now in
// growing steps, because there can be too many times to visit all of them.
func (s Schedule) lastWhere(t Timing, after, now time.Time, over func(time.Time) bool) time.Time {
	for back := time.Hour; now.Add(-back).After(after); back *= 2 {
		at, ok := t.Next(now.Add(-back))
		if !ok || !over(at) {
			continue
		}
		for {
			next, ok := t.Next(at)
			if !ok || !over(next) {
				return at
			}
			at = next
		}
	}
	return after
}

// between returns the nominal times from first to last; first is one of them.
func (s Schedule) between(t Timing, first, last time.Time) nominalRange {
	m := nominalRange{first: first, last: first, n: 1}
	for m.n < maxCountedFires {
		next, ok := t.Next(m.last)
		if !ok || next.After(last) {
			return m
		}
		m.last = next
		m.n++
	}
	m.last = s.lastWhere(t, m.last, last, func(at time.Time) bool { return !at.After(last) })
	return m
}

// MessageOutcome reads from the events after a message whether the turn with that message has
// ended, and whether it failed.
func MessageOutcome(events []Event, id MessageID) (ended, failed bool) {
	var turn TurnID
	for _, e := range events {
		switch f := e.Fact.(type) {
		case TurnStarted:
			if f.MessageID == id {
				turn = f.TurnID
			}
		case ReasonStarted:
			for _, input := range f.Inputs {
				if input == id {
					turn = e.Turn
				}
			}
		case TurnCompleted, TurnCanceled, TurnSealed:
			if turn != "" && e.Turn == turn {
				return true, false
			}
		case TurnFailed:
			if turn != "" && e.Turn == turn {
				return true, true
			}
		}
	}
	return false, false
}
