package sqlstore

import (
	"fmt"
	"math"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of journals. advanceJournal also locks the session's row.
const (
	advanceJournal = `UPDATE session SET last_seq = last_seq + $2 WHERE id = $1 RETURNING last_seq`
	advancing      = `WITH advanced AS (UPDATE session SET last_seq = last_seq + %d WHERE id = $1) `
	dropEvents     = `DELETE FROM event WHERE session_id = $1 AND seq > $2`
	resetLast      = `UPDATE session SET last_seq = $2 WHERE id = $1`
	// The cast keeps SQLite from planning the statement again for every value of the limit.
	listJournal = `SELECT session_id, seq, body FROM event WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`
)

// The statements that insert events, up to eight in each: one statement for each event would
// dominate the cost of a commit.
const (
	eventRows1 = `INSERT INTO event (session_id, seq, id, type, at_us, body) VALUES ($1, $2, $3, $4, $5, $6)`
	eventRows2 = eventRows1 + `, ($1, $7, $8, $9, $10, $11)`
	eventRows3 = eventRows2 + `, ($1, $12, $13, $14, $15, $16)`
	eventRows4 = eventRows3 + `, ($1, $17, $18, $19, $20, $21)`
	eventRows5 = eventRows4 + `, ($1, $22, $23, $24, $25, $26)`
	eventRows6 = eventRows5 + `, ($1, $27, $28, $29, $30, $31)`
	eventRows7 = eventRows6 + `, ($1, $32, $33, $34, $35, $36)`
	eventRows8 = eventRows7 + `, ($1, $37, $38, $39, $40, $41)`
	eventsOnce = ` ON CONFLICT (id) DO NOTHING`

	maxEventRows = 8
)

// insertEvents returns the statement for n events, 1 to maxEventRows.
func insertEvents(n int) string {
	return [maxEventRows]string{
		eventRows1 + eventsOnce, eventRows2 + eventsOnce, eventRows3 + eventsOnce, eventRows4 + eventsOnce,
		eventRows5 + eventsOnce, eventRows6 + eventsOnce, eventRows7 + eventsOnce, eventRows8 + eventsOnce,
	}[n-1]
}

// Events returns up to limit events of a session after seq, in order, or a page of them.
func (tx journalStore) Events(session perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	left := math.MaxInt // bytes until the page is full
	if limit == store.Page {
		limit, left = store.PageEvents, store.PageBytes
	}
	var found []perdure.Event
	if err := tx.hold(session); err != nil {
		return nil, fmt.Errorf("read journal of %s: %w", session, err)
	}
	err := each(tx.Tx, func(r row) (bool, error) {
		e, n, err := scanEvent(r)
		found = append(found, e)
		left -= n
		return left > 0, err
	}, listJournal, session, after, orAll(limit))
	return wrapped(found, err, "read journal of %s", session)
}

// Append adds events to a session's journal and sets their Seq, Session and At in place to what is
// stored.
func (tx journalStore) Append(session perdure.SessionID, events []perdure.Event) error {
	before, advance, err := tx.reserveSeqs(session, len(events))
	if err != nil {
		return fmt.Errorf("append to session %s: %w", session, err)
	}
	placed := slices.Clone(events)
	for i := range placed {
		e := &placed[i]
		e.Seq, e.Session, e.At = before+1+int64(i), session, micro(e.At)
	}
	for some := range slices.Chunk(placed, maxEventRows) {
		if err := tx.insertEvents(session, some, advance); err != nil {
			delete(tx.locks.last, session)
			return fmt.Errorf("append to session %s: %w", session, tx.undoAppend(session, before, err))
		}
	}
	if err := tx.auditEvents(session, placed); err != nil {
		return fmt.Errorf("append to session %s: %w", session, err)
	}
	copy(events, placed)
	tx.noteAppended(session)
	return nil
}

// reserveSeqs returns the last seq of a journal before n new events, and reserves them. If this
// transaction has locked the row and knows its last seq, advance is true: the statement that
// inserts the events then also advances the last seq, which saves a round trip to the database.
func (tx *Tx) reserveSeqs(session perdure.SessionID, n int) (before int64, advance bool, err error) {
	if before, known := tx.locks.last[session]; known && n > 0 && n <= maxEventRows {
		tx.locks.last[session] += int64(n)
		return before, true, nil
	}
	delete(tx.locks.last, session)
	last, err := one(tx, number, advanceJournal, session, n)
	if err != nil {
		return 0, false, err
	}
	tx.held(session)
	return last - int64(n), false, nil
}

// insertEvents adds up to maxEventRows events of one session and, with advance, advances the last
// seq.
func (tx *Tx) insertEvents(session perdure.SessionID, events []perdure.Event, advance bool) error {
	args := make([]any, 1, 1+5*maxEventRows)
	args[0] = session
	for _, e := range events {
		body, err := perdure.EncodeEvent(e)
		if err != nil {
			return err
		}
		args = append(args, e.Seq, e.ID, e.Type(), micros(e.At), body)
	}
	statement := insertEvents(len(events))
	if advance {
		statement = fmt.Sprintf(advancing, len(events)) + statement
	}
	n, err := tx.exec(statement, args...)
	if err != nil {
		return err
	}
	if n < int64(len(events)) {
		return fmt.Errorf("%w: %s", perdure.Conflict, existsText(events))
	}
	return nil
}

// existsText words a conflict: the database does not say which of the events exists.
func existsText(events []perdure.Event) string {
	if len(events) == 1 {
		return fmt.Sprintf("event %s exists", events[0].ID)
	}
	return fmt.Sprintf("one of the events %s to %s exists", events[0].ID, events[len(events)-1].ID)
}

// undoAppend removes what a failed Append wrote, so that the journal has no gap even if the caller
// continues and commits.
func (tx *Tx) undoAppend(session perdure.SessionID, before int64, cause error) error {
	if tx.failure != nil {
		return cause // the whole transaction will be rolled back
	}
	if _, err := tx.exec(dropEvents, session, before); err != nil {
		return err
	}
	if _, err := tx.exec(resetLast, session, before); err != nil {
		return err
	}
	return cause
}

// scanEvent reads one event and its size in bytes.
func scanEvent(r row) (e perdure.Event, bytes int, err error) {
	var session perdure.SessionID
	var seq int64
	var body []byte
	if err := r.Scan(&session, &seq, &body); err != nil {
		return e, 0, err
	}
	e, err = perdure.DecodeEvent(body)
	if err != nil {
		return e, 0, fmt.Errorf("event %d of %s: %w", seq, session, err)
	}
	if e.Seq != seq || e.Session != session {
		return e, 0, fmt.Errorf("event %d of %s: its body says %d of %s", seq, session, e.Seq, e.Session)
	}
	return e, len(body), nil
}
