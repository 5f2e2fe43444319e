package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Pause stops new work of a session until it is resumed.
func (e hostSessions) Pause(ctx context.Context, id perdure.SessionID, by, why string) error {
	// Urgent: allowed on a full disk, like everything that ends work (R7).
	err := e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error {
		s, err := e.foldIn(tx.Reader(), id)
		if err != nil || s.Paused != nil {
			return err
		}
		return e.appendAndSaveStatus(tx, id, by, perdure.SessionPauses{By: by, Reason: why})
	})
	if !nothingCommitted(err) {
		e.scheduler.Wake(id)
	}
	if err != nil {
		return fmt.Errorf("pause %s: %w", id, err)
	}
	return nil
}

// Resume resumes a session that a person has paused or a budget has stopped.
func (e hostSessions) Resume(ctx context.Context, id perdure.SessionID, by string) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s, err := e.foldIn(tx.Reader(), id)
		if err != nil {
			return err
		}
		if s.Paused == nil && s.Halt == nil {
			return fmt.Errorf("%w: it is not paused, and no budget stops it", perdure.Conflict)
		}
		if s.Halt != nil {
			err := e.endHalt(tx, s, by, true)
			if err != nil && (s.Paused == nil || !errors.Is(err, perdure.Conflict)) {
				return err // a Conflict does not keep the pause from ending
			}
		}
		if s.Paused == nil {
			return nil
		}
		return e.appendAndSaveStatus(tx, id, by, perdure.SessionResumes{By: by})
	})
	if !nothingCommitted(err) {
		e.scheduler.Wake(id)
	}
	if err != nil {
		return fmt.Errorf("resume %s: %w", id, err)
	}
	return nil
}

// appendAndSaveStatus appends an event of a person and updates the status in the session's row at
// once, because a paused session may have no driver to do that.
func (e hostSessions) appendAndSaveStatus(tx store.Tx, id perdure.SessionID, by string, fact perdure.Fact) error {
	if err := e.append(tx, id, perdure.Event{Actor: by, Fact: fact}); err != nil {
		return err
	}
	s, err := e.effects.Fold(tx.Reader(), id)
	if err != nil {
		return err
	}
	return tx.Sessions().Update(id, s.Title, s.Status)
}

// foldIn returns the session within a transaction. NotFound: no such session.
func (e hostSessions) foldIn(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	if _, err := r.Sessions().Get(id); err != nil {
		return nil, err
	}
	return e.effects.Fold(r, id)
}

// resume ends the halt of a session if its budget allows it to continue, and wakes the session. A
// pause stays. Conflict: no budget stops it, or the budget is still exhausted.
func (e hostSessions) resume(ctx context.Context, id perdure.SessionID, by string) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s, err := e.foldIn(tx.Reader(), id)
		if err != nil {
			return err
		}
		return e.endHalt(tx, s, by, false)
	})
	if !nothingCommitted(err) {
		e.scheduler.Wake(id)
	}
	return err
}

// endHaltIfAllowed ends the halt of a session if its budget allows it to continue, so that a
// message just received is not reported as waiting. It returns the status of the session's row.
func (e hostSessions) endHaltIfAllowed(tx store.Tx, id perdure.SessionID) (perdure.SessionStatus, error) {
	row, err := tx.Sessions().Get(id)
	if err != nil || row.Status != perdure.SessionPaused {
		return row.Status, err
	}
	s, err := e.effects.Fold(tx.Reader(), id)
	if err != nil || s.Halt == nil || s.Turn != nil || s.Lineage != nil {
		return row.Status, err
	}
	if err := e.endHalt(tx, s, "runtime", false); !errors.Is(err, perdure.Conflict) {
		return row.Status, err
	}
	return row.Status, nil
}

// endHalt records that a budget no longer stops a session. Conflict: no budget stops it, or the
// budget is exhausted. With waive, a soft limit is waived instead.
func (e hostSessions) endHalt(tx store.Tx, s *perdure.Session, by string, waive bool) error {
	if s.Halt == nil {
		return fmt.Errorf("%w: no budget stops it", perdure.Conflict)
	}
	may, err := e.meter.MayResume(tx.Reader(), s)
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
	if err := tx.Budgets().PutHalt(store.BudgetHalt{Session: s.ID}); err != nil {
		return err
	}
	return e.append(tx, s.ID, perdure.Event{Actor: by, Fact: resumed})
}

// hasTurn reports whether a session has a turn. A paused session can have one.
func (e hostSessions) hasTurn(r store.Reader, id perdure.SessionID) (bool, error) {
	row, err := r.Sessions().Get(id)
	if err != nil || row.Status != perdure.SessionPaused {
		return inTurn(row.Status), err
	}
	s, err := e.effects.Fold(r, id)
	return err == nil && s.Turn != nil, err
}

// pausedBy describes who paused a session, and why.
func pausedBy(p *perdure.Pause) string {
	if p.Reason == "" {
		return "by " + p.By
	}
	return "by " + p.By + ": " + p.Reason
}
