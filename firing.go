package perdure

import (
	"fmt"
	"time"
)

// ScheduleStep is what becomes of one nominal time. Without an outcome nothing does now.
type ScheduleStep struct {
	Schedule Schedule    // as it stands after it
	Nominal  time.Time   //
	Outcome  FireOutcome // Fired, FireQueued or a skip
	Reason   string      // of a skip, and of a fire that is late
	Counted  int         // earlier nominal times that this one stands for
	Late     bool        // it makes up for what was missed (SC20)
	Held     bool        // without an outcome: it waits for the end of the former fire
	Replace  bool        // with FireQueued: the former fire is to be canceled
}

// Step says what a schedule does at a moment: at most one thing, so that a fire is one commit (SC15). busy: the former fire is
// still at work. It is pure; who has done what it says asks again.
func (s Schedule) Step(t Timing, now time.Time, busy bool, r ScheduleRules) ScheduleStep {
	none := ScheduleStep{Schedule: s}
	if !s.Enabled {
		return none
	}
	if !s.Waiting.IsZero() && !busy {
		step := ScheduleStep{Nominal: s.Waiting, Outcome: Fired, Reason: "it waited for the end of the former fire"}
		s.Waiting = time.Time{}
		step.Schedule = s.began(step.Nominal, now)
		if s.Nominal.IsZero() {
			step.Schedule.Enabled = false
		}
		return step
	}
	none.Held = !s.Waiting.IsZero()
	if s.NextAt.IsZero() || s.NextAt.After(now) {
		return none
	}
	l := look{t: t, now: now, busy: busy, rules: r}
	if now.Sub(s.NextAt) <= r.Grace {
		return s.decide(l, s.Nominal, ScheduleStep{})
	}
	return s.catchUp(l)
}

// look is when a schedule is looked at, and what is known then.
type look struct {
	t     Timing
	now   time.Time
	busy  bool
	rules ScheduleRules
}

// catchUp decides about what was missed (SC13).
func (s Schedule) catchUp(l look) ScheduleStep {
	missed := s.missed(l.t, l.now, l.rules.Grace)
	switch {
	case s.Missed == MissedAll:
		return s.makeUp(l, missed)
	case s.Missed == MissedSkip:
		return s.skip(l.t, missed, SkippedMissed, "missed: nothing ran at the time, and the policy is skip")
	}
	late := ScheduleStep{Counted: missed.n - 1, Late: true, Reason: missed.text()}
	if next, ok := l.t.Next(missed.last); ok && !s.trigger(next).After(l.now) { // one that is on time stands for all
		late.Counted++
		return s.decide(l, next, late)
	}
	return s.decide(l, missed.last, late)
}

// makeUp fires the oldest of what was missed inside the window, one after another unless they may overlap.
func (s Schedule) makeUp(l look, missed stretch) ScheduleStep {
	first := missed.first
	if oldest := l.now.Add(-s.Window); first.Before(oldest) {
		next, ok := l.t.Next(oldest.Add(-time.Microsecond))
		if first = next; !ok {
			first = missed.last.Add(time.Microsecond)
		}
	}
	if kept := s.between(l.t, first, missed.last); l.rules.MaxCatchup > 0 && kept.n > l.rules.MaxCatchup {
		for range kept.n - l.rules.MaxCatchup {
			first, _ = l.t.Next(first)
		}
	}
	if first.After(missed.first) {
		dropped := s.between(l.t, missed.first, first.Add(-time.Microsecond))
		return s.skip(l.t, dropped, SkippedMissed, "missed: nothing ran at the time, and it is outside of what the policy makes up for")
	}
	if l.busy && s.Overlap != OverlapAllow {
		return ScheduleStep{Schedule: s, Held: true}
	}
	l.busy = false
	return s.decide(l, first, ScheduleStep{Late: true, Reason: "late: nothing ran at the time"})
}

// decide fires a nominal time, or does what the policy for overlap says (SC14).
func (s Schedule) decide(l look, nominal time.Time, step ScheduleStep) ScheduleStep {
	step.Nominal, step.Outcome = nominal, Fired
	s.Decided = nominal
	switch {
	case l.busy && !s.Waiting.IsZero():
		step.Outcome, step.Reason = SkippedOverlap, "the former fire is still at work, and another one waits already"
	case l.busy && s.Overlap == OverlapSkip:
		step.Outcome, step.Reason = SkippedOverlap, "the former fire is still at work"
	case l.busy && (s.Overlap == OverlapQueue || s.Overlap == OverlapReplace):
		step.Outcome, step.Reason = FireQueued, "the former fire is still at work"
		step.Replace = s.Overlap == OverlapReplace
		s.Waiting = nominal
	default:
		s = s.began(nominal, l.now)
	}
	step.Schedule = s.advanced(l.t)
	return step
}

// began notes a fire.
func (s Schedule) began(nominal, now time.Time) Schedule {
	s.LastFire, s.LastAt = nominal, now
	s.Count++
	return s
}

// skip passes over a stretch of nominal times. Its row is that of the last one.
func (s Schedule) skip(t Timing, over stretch, outcome FireOutcome, reason string) ScheduleStep {
	s.Decided = over.last
	return ScheduleStep{Schedule: s.advanced(t), Nominal: over.last, Outcome: outcome, Reason: reason, Counted: over.n - 1}
}

// Triggered is the step of a fire by hand, whatever the former one does. What comes next stays (SC22).
func (s Schedule) Triggered(nominal, now time.Time, reason string) ScheduleStep {
	return ScheduleStep{Schedule: s.began(nominal, now), Nominal: nominal, Outcome: Fired, Reason: reason}
}

// Withheld is a step that would fire, in a session that may not spend anything now: the fire is skipped (SC21).
func (s Schedule) Withheld(step ScheduleStep, why string) ScheduleStep {
	next := step.Schedule
	next.LastFire, next.LastAt, next.Count = s.LastFire, s.LastAt, s.Count
	step.Schedule, step.Outcome, step.Reason, step.Late = next, SkippedBudget, why, false
	return step
}

// stretch is some nominal times in a row.
type stretch struct {
	first, last time.Time
	n           int // counted up to countedAtMost
}

func (m stretch) text() string {
	if m.n == 1 {
		return "late: nothing ran at the time"
	}
	return fmt.Sprintf("%d fires from %s on were missed: nothing ran", m.n, m.first.Format(scheduleTimeLayout))
}

// missed are the nominal times from the next one on whose grace is over.
func (s Schedule) missed(t Timing, now time.Time, grace time.Duration) stretch {
	over := func(nominal time.Time) bool { return now.Sub(s.trigger(nominal)) > grace }
	m := stretch{first: s.Nominal, last: s.Nominal, n: 1}
	for {
		next, ok := t.Next(m.last)
		if !ok || !over(next) {
			return m
		}
		m.last = next
		if m.n++; m.n >= countedAtMost {
			m.last = s.lastOver(t, m.last, now, over)
			return m
		}
	}
}

// lastOver is the last nominal time whose grace is over, found from the end: there are too many to walk them all.
func (s Schedule) lastOver(t Timing, after, now time.Time, over func(time.Time) bool) time.Time {
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

// between are the nominal times from one to another moment; first is one of them.
func (s Schedule) between(t Timing, first, last time.Time) stretch {
	m := stretch{first: first, last: first, n: 1}
	for m.n < countedAtMost {
		next, ok := t.Next(m.last)
		if !ok || next.After(last) {
			return m
		}
		m.last = next
		m.n++
	}
	m.last = s.lastOver(t, m.last, last, func(at time.Time) bool { return !at.After(last) })
	return m
}

// MessageFate says from the events after a message what became of it: its turn has ended, and whether it failed.
func MessageFate(events []Event, id MessageID) (ended, failed bool) {
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
