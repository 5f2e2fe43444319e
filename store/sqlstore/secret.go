package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const secretColumns = `session_id, name, version, key_id, hosts, call_id, created_us, updated_us`

// The statements of sealed values. A row with an empty name and key id is not a secret: its version
// is the highest of those that the session removed, so that no version is ever reused.
const (
	selectSecret = `SELECT ` + secretColumns +
		`, sealed FROM session_secret WHERE session_id = $1 AND name = $2 AND key_id <> ''`
	listSecrets = `SELECT ` + secretColumns +
		`, sealed FROM session_secret WHERE session_id = $1 AND name > $2 AND key_id <> $3 ORDER BY name LIMIT $4`
	listBareSecrets = `SELECT ` + secretColumns +
		`, NULL FROM session_secret WHERE session_id = $1 AND name > $2 AND key_id <> $3 ORDER BY name LIMIT $4`
	pageSecrets     = `SELECT ` + secretColumns + `, sealed FROM session_secret WHERE (session_id, name) > ($1, $2) AND key_id <> $3 AND key_id <> '' ORDER BY session_id, name LIMIT $4`
	pageBareSecrets = `SELECT ` + secretColumns + `, NULL FROM session_secret WHERE (session_id, name) > ($1, $2) AND key_id <> $3 AND key_id <> '' ORDER BY session_id, name LIMIT $4`
	countSecrets    = `SELECT COUNT(*) FROM session_secret WHERE session_id = $1 AND key_id <> ''`
	versionOfSecret = `SELECT version FROM session_secret WHERE session_id = $1 AND name = $2`
	putSecret       = `INSERT INTO session_secret (` + secretColumns + `, sealed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (session_id, name) DO UPDATE SET version = excluded.version, key_id = excluded.key_id, hosts = excluded.hosts,
			call_id = excluded.call_id, updated_us = excluded.updated_us, sealed = excluded.sealed`
	resealSecret = `UPDATE session_secret SET sealed = $5, key_id = $6 WHERE session_id = $1 AND name = $2 AND version = $3 AND key_id = $4`
	removeSecret = `DELETE FROM session_secret WHERE session_id = $1 AND name = $2`
	countRemoved = `INSERT INTO session_secret (` + secretColumns + `, sealed) VALUES ($1, $2, $3, '', $4, $4, $5, $5, $4)
		ON CONFLICT (session_id, name) DO UPDATE SET version = excluded.version, updated_us = excluded.updated_us
			WHERE excluded.version > session_secret.version`
)

func (tx secretStore) Get(session perdure.SessionID, name string) (store.Secret, error) {
	err := tx.hold(session)
	var s store.Secret
	if err == nil {
		s, err = one(tx.Tx, scanSecret, selectSecret, session, bytesOf(name))
	}
	return wrapped(s, err, "secret %q of %s", name, session)
}

func (tx secretStore) List(filter store.SecretFilter) ([]store.Secret, error) {
	query, session := pageSecrets, filter.After.Session
	if filter.WithoutValue {
		query = pageBareSecrets
	}
	if filter.Session != "" {
		query, session = listSecrets, filter.Session
		if filter.WithoutValue {
			query = listBareSecrets
		}
		if err := tx.hold(session); err != nil {
			return nil, fmt.Errorf("list secrets: %w", err)
		}
	}
	found, err := list(tx.Tx, scanSecret, query, session, bytesOf(filter.After.Name), filter.OtherThanKey, orAll(filter.Limit))
	return wrapped(found, err, "list secrets")
}

func (tx secretStore) Put(s store.Secret) error {
	err := s.Check()
	if err == nil {
		err = tx.follows(s)
	}
	var hosts []byte
	if err == nil {
		hosts, err = encode(s.Hosts)
	}
	if err == nil {
		now := micros(tx.Now())
		_, err = tx.exec(putSecret, s.Session, bytesOf(s.Name), s.Version, s.KeyID, hosts, bytesOf(s.Call), now, now,
			bytesOf(s.Sealed))
	}
	return wrap(err, "put secret %q of %s", s.Name, s.Session)
}

// NextVersion returns the version under which a secret must be written.
func (tx secretStore) NextVersion(session perdure.SessionID, name string) (int64, error) {
	err := tx.hold(session)
	var next int64
	if err == nil {
		next, _, err = tx.nextSecret(session, name)
	}
	return wrapped(next, err, "next version of secret %q of %s", name, session)
}

// nextSecret is Secrets.NextVersion for a locked session, and reports whether the secret exists.
func (tx *Tx) nextSecret(session perdure.SessionID, name string) (next int64, there bool, err error) {
	last, err := one(tx, number, versionOfSecret, session, bytesOf(name))
	there = err == nil
	if missing(err) {
		last, err = one(tx, number, versionOfSecret, session, bytesOf(""))
	}
	if missing(err) {
		last, err = 0, nil
	}
	return last + 1, there, err
}

// follows checks that a secret is the next version of its name. Limit: it is new, and the session
// has too many others.
func (tx *Tx) follows(s store.Secret) error {
	if err := tx.holdExisting(s.Session); err != nil {
		return err
	}
	next, there, err := tx.nextSecret(s.Session, s.Name)
	if err == nil && !there {
		var n int64
		n, err = one(tx, number, countSecrets, s.Session)
		if err == nil && n >= store.MaxKeys {
			return fmt.Errorf("%w: the session has %d secrets; remove one first", perdure.Limit, n)
		}
	}
	if err == nil && s.Version != next {
		err = fmt.Errorf("%w: the next version is %d, not %d", perdure.Conflict, next, s.Version)
	}
	return err
}

func (tx secretStore) Reseal(s store.Secret, was string) (bool, error) {
	err := s.Check()
	if err == nil {
		err = tx.hold(s.Session)
	}
	var n int64
	if err == nil {
		n, err = tx.exec(resealSecret, s.Session, bytesOf(s.Name), s.Version, was, bytesOf(s.Sealed), s.KeyID)
	}
	return wrapped(n > 0, err, "reseal secret %q of %s", s.Name, s.Session)
}

func (tx secretStore) Remove(session perdure.SessionID, name string) (bool, error) {
	known, err := tx.Secrets().Get(session, name)
	if missing(err) {
		return false, nil
	}
	if err == nil {
		_, err = tx.exec(removeSecret, session, bytesOf(name))
	}
	if err == nil {
		_, err = tx.exec(countRemoved, session, bytesOf(""), known.Version, bytesOf(""), micros(tx.Now()))
	}
	return wrapped(true, err, "remove secret %q of %s", name, session)
}

func scanSecret(r row) (store.Secret, error) {
	var s store.Secret
	var name, hosts, call, sealed []byte
	var created, updated int64
	err := r.Scan(&s.Session, &name, &s.Version, &s.KeyID, &hosts, &call, &created, &updated, &sealed)
	if err == nil {
		err = decode(hosts, &s.Hosts)
	}
	s.Name, s.Call, s.CreatedAt, s.UpdatedAt = string(name), perdure.CallID(call), moment(created), moment(updated)
	if len(sealed) > 0 {
		s.Sealed = sealed
	}
	return s, err
}
