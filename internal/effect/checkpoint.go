package effect

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
)

// saveCheckpoint stores and removes checkpoints in the commit of an outcome, and returns the
// outcome that applies.
func (s *step) saveCheckpoint(o core.Outcome) (core.Outcome, error) {
	if turn := s.session.Turn; o.IfEnding != nil && turn != nil && turn.Interrupt != nil {
		o = *o.IfEnding
	}
	if o.Checkpoint != nil {
		if err := s.tx.Journal().PutPartial(*o.Checkpoint); err != nil {
			return o, err
		}
	}
	if o.DropCheckpoint != "" {
		return o, s.tx.Journal().DropPartial(s.d.ID, o.DropCheckpoint)
	}
	return o, nil
}

// noteInheritedStep notes which reason step was open when the driver acquired the session.
func (s *step) noteInheritedStep(take bool) {
	if turn := s.session.Turn; take {
		s.d.inheritedExec = ""
		if turn != nil && turn.Phase == perdure.PhaseReasoning {
			s.d.inheritedExec = turn.Exec
		}
	}
}
