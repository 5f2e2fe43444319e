package effect

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
)

// withhold answers a call with the unknown outcome of an identical earlier call, instead of
// claiming it.
func (s *step) withhold(c perdure.ClaimCall) (bool, error) {
	if s.session.Agent.DryRun {
		return false, nil
	}
	by, found, err := s.e.admission.FindUnresolved(s.tx.Reader(), admission.Repeat{
		Key: perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}, Class: c.Call.Class,
		Print: c.Call.Fingerprint, Despite: c.Call.RepeatOf,
	})
	if err != nil || !found {
		return false, err
	}
	answer := (&admission.DuplicateError{By: by}).Answer(c.Call.ID)
	return true, s.appendFacts(c.Event, perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(),
		Result: answer})
}
