package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const valueColumns = `name, version, created_us, updated_us`

// The statements of values. The session's row is locked before its values are read or written, so
// that the count stays correct.
const (
	selectValue    = `SELECT ` + valueColumns + `, body FROM session_value WHERE session_id = $1 AND name = $2`
	listValues     = `SELECT ` + valueColumns + ` FROM session_value WHERE session_id = $1 ORDER BY name`
	listFullValues = `SELECT ` + valueColumns + `, body FROM session_value WHERE session_id = $1 ORDER BY name`
	statValue      = `SELECT ` + valueColumns + ` FROM session_value WHERE session_id = $1 AND name = $2`
	countValues    = `SELECT COUNT(*) FROM session_value WHERE session_id = $1`
	putValue       = `INSERT INTO session_value (session_id, ` + valueColumns + `, body) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (session_id, name) DO UPDATE SET version = excluded.version, updated_us = excluded.updated_us, body = excluded.body`
	removeValue  = `DELETE FROM session_value WHERE session_id = $1 AND name = $2`
	countSession = `SELECT COUNT(*) FROM session WHERE id = $1`
)

func (tx valueStore) Get(session perdure.SessionID, key string) (store.Value, error) {
	err := tx.hold(session)
	var v store.Value
	if err == nil {
		v, err = one(tx.Tx, scanFullValue, selectValue, session, bytesOf(key))
	}
	if err != nil {
		return store.Value{}, fmt.Errorf("value %q of %s: %w", key, session, err)
	}
	v.Session = session
	return v, nil
}

// List lists the values of a session, without their texts.
func (tx valueStore) List(session perdure.SessionID) ([]store.Value, error) {
	err := tx.hold(session)
	var found []store.Value
	if err == nil {
		found, err = list(tx.Tx, scanValue, listValues, session)
	}
	if err != nil {
		return nil, fmt.Errorf("list values of %s: %w", session, err)
	}
	for i := range found {
		found[i].Session = session
	}
	return found, nil
}

// Put adds a value, or replaces it.
func (tx valueStore) Put(v store.Value) (store.Value, error) {
	err := v.Check()
	var known store.Value
	if err == nil {
		known, err = tx.knownValue(v)
	}
	now := tx.Now()
	if err == nil {
		_, err = tx.exec(putValue, v.Session, bytesOf(v.Key), known.Version+1, micros(known.CreatedAt), micros(now),
			bytesOf(v.Text))
	}
	if err != nil {
		return store.Value{}, fmt.Errorf("put value %q of %s: %w", v.Key, v.Session, err)
	}
	return store.Value{Session: v.Session, Key: v.Key, Version: known.Version + 1, CreatedAt: known.CreatedAt,
		UpdatedAt: now}, nil
}

// knownValue returns the stored row of a value that is to be written, or version 0 created now.
// Limit: the session has too many others.
func (tx *Tx) knownValue(v store.Value) (store.Value, error) {
	if err := tx.holdExisting(v.Session); err != nil {
		return store.Value{}, err
	}
	known, err := one(tx, scanValue, statValue, v.Session, bytesOf(v.Key))
	if !missing(err) {
		return known, err
	}
	n, err := one(tx, number, countValues, v.Session)
	if err == nil && n >= store.MaxKeys {
		err = fmt.Errorf("%w: the session has %d values; remove one first", perdure.Limit, n)
	}
	return store.Value{CreatedAt: tx.Now()}, err
}

// holdExisting locks a session. NotFound: there is none; data written for it would never be
// removed.
func (tx *Tx) holdExisting(session perdure.SessionID) error {
	if err := tx.hold(session); err != nil {
		return err
	}
	n, err := one(tx, number, countSession, session)
	if err == nil && n == 0 {
		err = fmt.Errorf("session %s: %w", session, perdure.NotFound)
	}
	return err
}

func (tx valueStore) Remove(session perdure.SessionID, key string) (bool, error) {
	err := tx.hold(session)
	var n int64
	if err == nil {
		n, err = tx.exec(removeValue, session, bytesOf(key))
	}
	return wrapped(n > 0, err, "remove value %q of %s", key, session)
}

// dumpValues returns the values of a session with their texts.
func (tx *Tx) dumpValues(session perdure.SessionID) ([]store.Value, error) {
	found, err := list(tx, scanFullValue, listFullValues, session)
	for i := range found {
		found[i].Session = session
	}
	return found, err
}

// restoreValues adds the values of a dump.
func (tx *Tx) restoreValues(d store.SessionDump) error {
	for _, v := range d.Values {
		_, err := tx.exec(putValue, v.Session, bytesOf(v.Key), v.Version, micros(v.CreatedAt), micros(v.UpdatedAt),
			bytesOf(v.Text))
		if err != nil {
			return fmt.Errorf("value %q: %w", v.Key, err)
		}
	}
	return nil
}

func scanValue(r row) (store.Value, error) { return scanValueAnd(r) }

func scanFullValue(r row) (store.Value, error) {
	var body []byte
	v, err := scanValueAnd(r, &body)
	v.Text = string(body)
	return v, err
}

// scanValueAnd scans the columns of every value, and then more.
func scanValueAnd(r row, more ...any) (store.Value, error) {
	var v store.Value
	var key []byte
	var created, updated int64
	err := r.Scan(append([]any{&key, &v.Version, &created, &updated}, more...)...)
	v.Key, v.CreatedAt, v.UpdatedAt = string(key), moment(created), moment(updated)
	return v, err
}
