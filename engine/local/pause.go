package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// PauseSession has nothing new begin in a session until it is resumed.
func (e *Engine) PauseSession(ctx context.Context, id perdure.SessionID, by, why string) error {
	err := e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // also on a full disk, as what ends work (R7)
		s, err := e.foldIn(tx, id)
		if err != nil || s.Paused != nil {
			return err
		}
		return e.tell(tx, id, by, perdure.SessionPauses{By: by, Reason: why})
	})
	if !refused(err) {
		e.wake(id)
	}
	if err != nil {
		return fmt.Errorf("pause %s: %w", id, err)
	}
	return nil
}

// ResumeSession lets a session go on that a person paused or a budget had stopped.
func (e *Engine) ResumeSession(ctx context.Context, id perdure.SessionID, by string) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s, err := e.foldIn(tx, id)
		if err != nil {
			return err
		}
		if s.Paused == nil && s.Halt == nil {
			return fmt.Errorf("%w: nobody paused it, and no budget stops it", perdure.Conflict)
		}
		if s.Halt != nil {
			err := e.lift(tx, s, by, true)
			if err != nil && (s.Paused == nil || !errors.Is(err, perdure.Conflict)) {
				return err // else the pause ends all the same, and the budget goes on to say why it stops
			}
		}
		if s.Paused == nil {
			return nil
		}
		return e.tell(tx, id, by, perdure.SessionResumes{By: by})
	})
	if !refused(err) {
		e.wake(id)
	}
	if err != nil {
		return fmt.Errorf("resume %s: %w", id, err)
	}
	return nil
}

// tell appends what a person says of a session, and shows at once how the session stands then: no driver may be there to do it.
func (e *Engine) tell(tx store.Tx, id perdure.SessionID, by string, fact perdure.Fact) error {
	if err := e.append(tx, id, perdure.Event{Actor: by, Fact: fact}); err != nil {
		return err
	}
	s, err := e.effects.Fold(tx, id)
	if err != nil {
		return err
	}
	return tx.SaveSession(id, s.Title, s.Status)
}

// foldIn is the session as of a transaction. NotFound: no such session.
func (e *Engine) foldIn(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	if _, err := r.Session(id); err != nil {
		return nil, err
	}
	return e.effects.Fold(r, id)
}

// resume lets a session go on that a budget had stopped and that may go on by now, and wakes it. A person's pause stays.
// Conflict: no budget stops it, or nothing is left.
func (e *Engine) resume(ctx context.Context, id perdure.SessionID, by string) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s, err := e.foldIn(tx, id)
		if err != nil {
			return err
		}
		return e.lift(tx, s, by, false)
	})
	if !refused(err) {
		e.wake(id)
	}
	return err
}

// revive lets a session go on that a budget had stopped, where something is left by now: nobody is told then that what was
// just said waits.
func (e *Engine) revive(tx store.Tx, id perdure.SessionID) error {
	row, err := tx.Session(id)
	if err != nil || row.Status != perdure.SessionPaused {
		return err
	}
	s, err := e.effects.Fold(tx, id)
	if err != nil || s.Halt == nil || s.Turn != nil || s.Lineage != nil {
		return err
	}
	if err := e.lift(tx, s, "runtime", false); !errors.Is(err, perdure.Conflict) {
		return err
	}
	return nil
}

// lift records that a budget stops a session no more. Conflict: none stops it, or nothing is left; with waive, what a person may
// let go on does.
func (e *Engine) lift(tx store.Tx, s *perdure.Session, by string, waive bool) error {
	if s.Halt == nil {
		return fmt.Errorf("%w: no budget stops it", perdure.Conflict)
	}
	may, err := e.meter.MayResume(tx, s)
	if err != nil {
		return err
	}
	resumed := perdure.BudgetResumed{BudgetID: s.Halt.BudgetID, By: by}
	switch {
	case may:
	case waive && s.Halt.Soft:
		resumed.Waived, resumed.Until = true, s.Halt.ResetsAt
	default:
		return fmt.Errorf("%w: %s; set a higher limit", perdure.Conflict, s.Halt.Why)
	}
	if err := tx.PutHalt(store.BudgetHalt{Session: s.ID}); err != nil {
		return err
	}
	return e.append(tx, s.ID, perdure.Event{Actor: by, Fact: resumed})
}

// turnRuns reports whether a session has a turn, which one that a person paused may have.
func (e *Engine) turnRuns(r store.Reader, id perdure.SessionID) (bool, error) {
	row, err := r.Session(id)
	if err != nil || row.Status != perdure.SessionPaused {
		return inTurn(row.Status), err
	}
	s, err := e.effects.Fold(r, id)
	return err == nil && s.Turn != nil, err
}

// byWhom says who paused a session, and why.
func byWhom(p *perdure.Pause) string {
	if p.Reason == "" {
		return "by " + p.By
	}
	return "by " + p.By + ": " + p.Reason
}
