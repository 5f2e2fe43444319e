package sqlstore

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of checkpoints.
const (
	putPartial = `INSERT INTO partial (session_id, message_id, body, at_us) VALUES ($1, $2, $3, $4)
		ON CONFLICT (session_id, message_id) DO UPDATE SET body = excluded.body, at_us = excluded.at_us`
	selectPartial = `SELECT session_id, message_id, body, at_us FROM partial WHERE session_id = $1 AND message_id = $2`
	dropPartial   = `DELETE FROM partial WHERE session_id = $1 AND message_id = $2`
)

func (tx journalStore) Partial(session perdure.SessionID, message perdure.MessageID) (store.Partial, error) {
	err := tx.hold(session)
	var p store.Partial
	if err == nil {
		p, err = one(tx.Tx, scanPartial, selectPartial, session, message)
	}
	return wrapped(p, err, "partial %s of session %s", message, session)
}

func (tx journalStore) PutPartial(p store.Partial) error {
	err := tx.hold(p.Session)
	if err == nil {
		_, err = tx.exec(putPartial, p.Session, p.Message, bytesOf(p.Text), micros(tx.Now()))
	}
	return wrap(err, "put partial %s of session %s", p.Message, p.Session)
}

func (tx journalStore) DropPartial(session perdure.SessionID, message perdure.MessageID) error {
	err := tx.hold(session)
	if err == nil {
		_, err = tx.exec(dropPartial, session, message)
	}
	return wrap(err, "drop partial %s of session %s", message, session)
}

func scanPartial(r row) (store.Partial, error) {
	var p store.Partial
	var text []byte
	var at int64
	if err := r.Scan(&p.Session, &p.Message, &text, &at); err != nil {
		return store.Partial{}, err
	}
	p.Text, p.At = string(text), moment(at)
	return p, nil
}
