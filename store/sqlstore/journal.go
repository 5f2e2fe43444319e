package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
)

// The statements of journals. advanceJournal also locks the session's row.
const (
	advanceJournal = `UPDATE session SET last_seq = last_seq + $2 WHERE id = $1 RETURNING last_seq`
	insertEvent    = `INSERT INTO event (session_id, seq, id, type, at_us, body) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO NOTHING`
	dropEvents  = `DELETE FROM event WHERE session_id = $1 AND seq > $2`
	resetLast   = `UPDATE session SET last_seq = $2 WHERE id = $1`
	listJournal = `SELECT session_id, seq, body FROM event WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`
)

// Events returns up to limit events of a session after seq, in order.
func (tx *Tx) Events(session perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	found, err := list(tx, scanEvent, listJournal, session, after, orAll(limit))
	if err != nil {
		return nil, fmt.Errorf("read journal of %s: %w", session, err)
	}
	return found, nil
}

// Append adds events to a session's journal and assigns their Seq in place. Their At and Session become
// what is stored.
func (tx *Tx) Append(session perdure.SessionID, events []perdure.Event) error {
	last, err := one(tx, number, advanceJournal, session, len(events))
	if err != nil {
		return fmt.Errorf("append to session %s: %w", session, err)
	}
	before := last - int64(len(events))
	for i, e := range events {
		e.Seq, e.Session, e.At = before+1+int64(i), session, micro(e.At)
		if err := tx.insertEvent(e); err != nil {
			return fmt.Errorf("append to session %s: %w", session, tx.undoAppend(session, before, err))
		}
	}
	for i := range events {
		e := &events[i]
		e.Seq, e.Session, e.At = before+1+int64(i), session, micro(e.At)
	}
	tx.noteAppended(session)
	return nil
}

func (tx *Tx) insertEvent(e perdure.Event) error {
	body, err := perdure.EncodeEvent(e)
	if err != nil {
		return err
	}
	n, err := tx.exec(insertEvent, e.Session, e.Seq, e.ID, e.Type(), micros(e.At), body)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: event %s exists", perdure.Conflict, e.ID)
	}
	return nil
}

// undoAppend takes back what a refused Append wrote, so that the journal has no gap even if the caller
// goes on and commits.
func (tx *Tx) undoAppend(session perdure.SessionID, before int64, cause error) error {
	if tx.failure != nil {
		return cause // nothing of this transaction will stay
	}
	if _, err := tx.exec(dropEvents, session, before); err != nil {
		return err
	}
	if _, err := tx.exec(resetLast, session, before); err != nil {
		return err
	}
	return cause
}

func scanEvent(r row) (perdure.Event, error) {
	var session perdure.SessionID
	var seq int64
	var body []byte
	if err := r.Scan(&session, &seq, &body); err != nil {
		return perdure.Event{}, err
	}
	e, err := perdure.DecodeEvent(body)
	if err != nil {
		return perdure.Event{}, fmt.Errorf("event %d of %s: %w", seq, session, err)
	}
	if e.Seq != seq || e.Session != session {
		return perdure.Event{}, fmt.Errorf("event %d of %s: its body says %d of %s", seq, session, e.Seq, e.Session)
	}
	return e, nil
}
