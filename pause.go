package perdure

import (
	"slices"
	"time"
)

// SessionPauses says that a person has nothing new begin in a session until session.resumed: no turn, no question to the model,
// no call of a tool, nobody is asked. What has begun goes on to its own end, and what comes in waits. A pause in a pause changes
// nothing.
type SessionPauses struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// SessionResumes ends a person's pause: the session goes on where it stopped.
type SessionResumes struct {
	By string `json:"by"`
}

// Pause is a person's word that nothing new begins in a session.
type Pause struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// pause folds a person's pause; the first one stands.
func (s *Session) pause(f SessionPauses, at time.Time) {
	if s.Paused == nil {
		s.Paused = &Pause{By: f.By, Reason: f.Reason, At: at}
	}
}

// resume folds the end of a person's pause. What is held by the next one is said again.
func (s *Session) resume() {
	s.Paused, s.Held = nil, s.Held && s.Paused == nil
}

// Suspended reports whether a person's pause holds a turn that has begun: nothing of it is at work, and nothing of it begins.
func (s *Session) Suspended() bool {
	t := s.Turn
	if s.Paused == nil || t == nil || t.Interrupt != nil || t.Phase == PhaseReasoning || s.halted() {
		return false
	}
	for _, c := range t.Calls {
		if c.Phase == CallInWork || c.Phase == CallReplanning {
			return false
		}
	}
	return true
}

// withheld leaves out of what is due what a person's pause keeps from beginning. Facts that only follow from what has happened
// are recorded: a turn that has its answer ends.
func (s *Session) withheld(commands []Command) []Command {
	if s.Paused == nil {
		return commands
	}
	var kept []Command
	for _, command := range commands {
		if !begins(command) {
			kept = append(kept, command)
		}
	}
	if len(kept) == 0 {
		return []Command{Rest{}}
	}
	return kept
}

// begins reports whether a command begins something, rather than to go on with it.
func begins(command Command) bool {
	switch c := command.(type) {
	case ClaimCall, SumUp, RepairTranscript:
		return true
	case Record:
		return slices.ContainsFunc(c.Events, func(e Event) bool {
			_, asks := e.Fact.(ReasonStarted)
			return asks
		})
	}
	return false
}
