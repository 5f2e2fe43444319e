package perdure

import (
	"slices"
	"time"
)

// SessionPauses says that a person paused the session: until session.resumed no turn, model call,
// tool call or approval request starts. Running work ends by itself, and input waits. Pausing a
// paused session changes nothing.
type SessionPauses struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// SessionResumes ends a pause. The session continues where it stopped.
type SessionResumes struct {
	By string `json:"by"`
}

// Pause is a person's decision that nothing starts in a session.
type Pause struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// pause folds a pause; the first one counts.
func (s *Session) pause(f SessionPauses, at time.Time) {
	if s.Paused == nil {
		s.Paused = &Pause{By: f.By, Reason: f.Reason, At: at}
	}
}

// resume folds the end of a pause. After it, a delivery that is held again is reported again.
func (s *Session) resume() {
	s.Paused, s.DeliveryHeld = nil, s.DeliveryHeld && s.Paused == nil
}

// Suspended reports whether a pause holds a started turn: none of its work is running, and none
// starts.
func (s *Session) Suspended() bool {
	t := s.Turn
	if s.Paused == nil || t == nil || t.Interrupt != nil || t.Phase == PhaseReasoning || s.budgetEndsTurn() {
		return false
	}
	for _, c := range t.Calls {
		if c.Phase == CallExecuting || c.Phase == CallReplanning {
			return false
		}
	}
	return true
}

// withoutNewWork removes from commands what a pause does not let start. Facts that only follow from
// what has happened stay, so a turn that has its answer ends. If nothing remains, the session is
// released.
func (s *Session) withoutNewWork(commands []Command) []Command {
	if s.Paused == nil {
		return commands
	}
	var allowed []Command
	for _, command := range commands {
		if !startsWork(command) {
			allowed = append(allowed, command)
		}
	}
	if len(allowed) == 0 {
		return []Command{ReleaseSession{}}
	}
	return allowed
}

// startsWork reports whether a command starts new work.
func startsWork(command Command) bool {
	switch c := command.(type) {
	case ClaimCall, SummariseContext, RepairTranscript:
		return true
	case Record:
		return slices.ContainsFunc(c.Events, func(e Event) bool {
			_, asks := e.Fact.(ReasonStarted)
			return asks
		})
	}
	return false
}
