package sqlstore

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of requests. Status 0 means that there is no answer yet.
const (
	insertRequest = `INSERT INTO request (scope, request_key, hash, seed, begun_us, status, content_type, location, body)
		VALUES ($1, $2, $3, $4, $5, 0, $6, $6, $6) ON CONFLICT (scope, request_key) DO NOTHING`
	selectRequest = `SELECT scope, request_key, hash, seed, begun_us, status, content_type, location, body FROM request
		WHERE scope = $1 AND request_key = $2`
	selectStatus = `SELECT status FROM request WHERE scope = $1 AND request_key = $2`
	endRequest   = `UPDATE request SET status = $3, content_type = $4, location = $5, body = $6
		WHERE scope = $1 AND request_key = $2 AND status = 0`
	pruneRequests = `DELETE FROM request WHERE (scope, request_key) IN
		(SELECT scope, request_key FROM request WHERE begun_us < $1 ORDER BY begun_us, scope, request_key LIMIT $2)`
)

// Get returns the row with its answer.
func (tx requestStore) Get(scope, key string) (store.Request, error) {
	r, err := oneOrNone(tx.Tx, scanRequest, selectRequest, bytesOf(scope), bytesOf(key))
	return wrapped(r, err, "request %q of %q", key, scope)
}

// Begin adds a row without an answer.
func (tx requestStore) Begin(r store.Request) error {
	if len(r.Scope) > store.MaxRequestKeyBytes || len(r.Key) > store.MaxRequestKeyBytes {
		return fmt.Errorf("begin request: %w: its scope has %d bytes and its key %d, at most %d are allowed for each",
			perdure.Invalid, len(r.Scope), len(r.Key), store.MaxRequestKeyBytes)
	}
	n, err := tx.exec(insertRequest, bytesOf(r.Scope), bytesOf(r.Key), bytesOf(r.Hash), r.Seed[:], micros(tx.Now()),
		bytesOf(""))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it exists already", perdure.Conflict)
	}
	return wrap(err, "begin request %q of %q", r.Key, r.Scope)
}

func (tx requestStore) End(scope, key string, answer store.Answer) error {
	if answer.Status <= 0 {
		return fmt.Errorf("end request %q of %q: %w status %d", key, scope, perdure.Invalid, answer.Status)
	}
	n, err := tx.exec(endRequest, bytesOf(scope), bytesOf(key), answer.Status, bytesOf(answer.ContentType),
		bytesOf(answer.Location),
		bytesOf(answer.Body))
	if err == nil && n == 0 {
		_, err = one(tx.Tx, number, selectStatus, bytesOf(scope), bytesOf(key)) // checks only that the row exists
	}
	return wrap(err, "end request %q of %q", key, scope)
}

func (tx requestStore) Prune(before time.Time, limit int) (int, error) {
	n, err := tx.exec(pruneRequests, micros(before), orAll(limit))
	if err != nil {
		return 0, fmt.Errorf("prune requests: %w", err)
	}
	return int(n), nil
}

func scanRequest(r row) (store.Request, error) {
	var found store.Request
	var scope, key, hash, seed, contentType, location, body []byte
	var begun int64
	err := r.Scan(&scope, &key, &hash, &seed, &begun, &found.Answer.Status, &contentType, &location, &body)
	if err != nil {
		return store.Request{}, err
	}
	found.Scope, found.Key, found.Hash, found.At = string(scope), string(key), string(hash), moment(begun)
	found.Answer.ContentType, found.Answer.Location = string(contentType), string(location)
	if len(body) > 0 {
		found.Answer.Body = body
	}
	if len(seed) != len(found.Seed) {
		return store.Request{}, fmt.Errorf("its seed has %d bytes, not %d", len(seed), len(found.Seed))
	}
	copy(found.Seed[:], seed)
	return found, nil
}
