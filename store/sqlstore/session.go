package sqlstore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const sessionColumns = `id, title, status, last_seq, epoch, worker_id, take_ups, taken_seq, secret, created_us, updated_us,
	parent_id, root_id, forked_id, org, owner, labels, home_id, waits_us`

const newestFirst = ` ORDER BY created_us DESC, id DESC LIMIT $1`

// The statements of sessions.
const (
	insertSession = `INSERT INTO session (` + sessionColumns + `) VALUES ($1, $2, $3, 0, 0, '', 0, 0, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0)
		ON CONFLICT (id) DO NOTHING`
	selectSession  = `SELECT ` + sessionColumns + ` FROM session WHERE id = $1`
	listSessions   = `SELECT ` + sessionColumns + ` FROM session` + newestFirst
	listOfOrg      = `SELECT ` + sessionColumns + ` FROM session WHERE org = $2` + newestFirst
	listDriven     = `SELECT ` + sessionColumns + ` FROM session WHERE worker_id <> ''` + newestFirst
	listUnread     = `SELECT ` + sessionColumns + ` FROM session WHERE worker_id = '' AND last_seq > taken_seq` + newestFirst
	listChildren   = `SELECT ` + sessionColumns + ` FROM session WHERE parent_id = $2 AND parent_id <> ''` + newestFirst
	listWithDriver = `SELECT ` + sessionColumns +
		` FROM session WHERE parent_id = $2 AND parent_id <> '' AND worker_id <> ''` + newestFirst
	listWaiting   = `SELECT ` + sessionColumns + ` FROM session WHERE waits_us > 0` + newestFirst
	listWaitingAt = `SELECT ` + sessionColumns + ` FROM session WHERE waits_us > 0 AND home_id = $2` + newestFirst
	takeSession   = `UPDATE session SET epoch = epoch + 1, worker_id = $2, taken_seq = last_seq, waits_us = 0,
		take_ups = CASE WHEN epoch > 0 AND last_seq = taken_seq THEN take_ups + 1 ELSE 0 END
		WHERE id = $1 RETURNING ` + sessionColumns + `, ` + anyBudget
	selectFence    = `SELECT epoch, last_seq, ` + anyBudget + ` FROM session WHERE id = $1`
	saveSession    = `UPDATE session SET title = $2, status = $3, updated_us = $4 WHERE id = $1`
	releaseSession = `UPDATE session SET worker_id = '', taken_seq = last_seq WHERE id = $1 AND epoch = $2`
	setHome        = `UPDATE session SET home_id = $2, waits_us = 0 WHERE id = $1`
	awaitHome      = `UPDATE session SET waits_us = CASE WHEN waits_us = 0 AND home_id <> '' THEN $2 ELSE waits_us END WHERE id = $1`
	putSnapshot    = `INSERT INTO snapshot (session_id, seq, version, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, version = excluded.version, body = excluded.body`
	selectSnapshot = `SELECT seq, version, body FROM snapshot WHERE session_id = $1`
)

func (tx sessionStore) Get(id perdure.SessionID) (store.Session, error) {
	s, err := one(tx.Tx, scanSession, tx.locked(selectSession), id)
	if err != nil {
		return store.Session{}, fmt.Errorf("session %s: %w", id, err)
	}
	tx.held(id)
	return s, nil
}

// List lists rows, newest first.
func (tx sessionStore) List(filter store.SessionFilter) ([]store.Session, error) {
	if err := filter.Check(); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	limit := filter.Limit
	if filter.Title != "" {
		filter.Limit = 0 // it counts the rows that match
	}
	query, args := listSessions, []any{orAll(filter.Limit)}
	switch {
	case filter.Matched() || filter.After.ID != "":
		query, args = listMatching(filter)
	case filter.OneOrg:
		query, args = listOfOrg, append(args, filter.Org)
	case filter.Waiting && filter.Home != "":
		query, args = listWaitingAt, append(args, filter.Home)
	case filter.Waiting:
		query = listWaiting
	case filter.Parent != "" && filter.HasDriver:
		query, args = listWithDriver, append(args, filter.Parent)
	case filter.Parent != "":
		query, args = listChildren, append(args, filter.Parent)
	case filter.HasDriver:
		query = listDriven
	case filter.Unread:
		query = listUnread
	}
	if filter.Title != "" {
		found, err := tx.listTitled(filter.Title, limit, tx.locked(query), args)
		return wrapped(found, err, "list sessions")
	}
	found, err := list(tx.Tx, scanSession, tx.locked(query), args...)
	return wrapped(found, err, "list sessions")
}

// listTitled reads the rows of a query until enough of them have a title that matches. Titles are
// bytes for both databases, which differ in how they compare letters, so they are compared here.
func (tx sessionStore) listTitled(
	title perdure.TitleFilter, limit int, query string, args []any,
) (found []store.Session, err error) {
	matches := title.Matcher()
	err = each(tx.Tx, func(r row) (more bool, err error) {
		s, err := scanSession(r)
		if err == nil && matches(s.Title) {
			found = append(found, s)
		}
		return limit <= 0 || len(found) < limit, err
	}, query, args...)
	return found, err
}

// Create adds a row with last seq 0 and epoch 0.
func (tx sessionStore) Create(s store.Session) error {
	labels, err := encodeLabels(s.Labels)
	if err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	if err := tx.hold(s.Parent); err != nil { // so that the parent exists as long as its child
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	if err := tx.lockUnmade(s.ID); err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	n, err := tx.exec(insertSession, s.ID, bytesOf(s.Title), s.Status, s.Secret[:], micros(s.CreatedAt),
		micros(s.UpdatedAt),
		s.Parent, cmp.Or(s.Root, s.ID), s.Forked, s.Org, bytesOf(s.User), labels, s.Home)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it exists already", perdure.Conflict)
	}
	if err == nil {
		err = tx.addLabels(s.ID, s.Labels)
	}
	if err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	tx.held(s.ID)
	return nil
}

// Acquire makes worker the driver. The first acquisition leaves take_ups at 0.
func (tx sessionStore) Acquire(id perdure.SessionID, worker perdure.WorkerID) (store.Session, error) {
	var budgeted bool
	scan := func(r row) (store.Session, error) { return scanSession(rowWithExtra{r, []any{&budgeted}}) }
	s, err := one(tx.Tx, scan, takeSession, id, worker)
	if err != nil {
		return store.Session{}, fmt.Errorf("acquire session %s: %w", id, err)
	}
	tx.held(id)
	tx.noteBudgeted(budgeted)
	return s, nil
}

// rowWithExtra is a row with more columns than its scan function expects.
type rowWithExtra struct {
	row
	extra []any // destinations of the additional columns
}

func (l rowWithExtra) Scan(into ...any) error { return l.row.Scan(slices.Concat(into, l.extra)...) }

// Lock locks the row, checks the fence, and returns the seq of the last event.
func (tx sessionStore) Lock(id perdure.SessionID, epoch int64) (int64, error) {
	stored, err := one(tx.Tx, scanFence, tx.locked(selectFence), id)
	if err == nil && stored.epoch != epoch {
		err = fmt.Errorf("%w: epoch %d, the session is at %d", perdure.Lost, epoch, stored.epoch)
	}
	if err != nil {
		return 0, fmt.Errorf("lock session %s: %w", id, err)
	}
	tx.held(id)
	tx.noteBudgeted(stored.budgeted)
	if !tx.alone() {
		if tx.locks.last == nil {
			tx.locks.last = map[perdure.SessionID]int64{}
		}
		tx.locks.last[id] = stored.lastSeq
	}
	return stored.lastSeq, nil
}

// fence is what a driver reads of a session's row before it writes.
type fence struct {
	epoch, lastSeq int64
	budgeted       bool
}

func scanFence(r row) (f fence, err error) {
	err = r.Scan(&f.epoch, &f.lastSeq, &f.budgeted)
	return f, err
}

func (tx sessionStore) Update(id perdure.SessionID, title string, status perdure.SessionStatus) error {
	n, err := tx.exec(saveSession, id, bytesOf(title), status, micros(tx.Now()))
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	return wrap(err, "save session %s", id)
}

func (tx sessionStore) SetHome(id perdure.SessionID, home perdure.HomeID) error {
	n, err := tx.exec(setHome, id, home)
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	return wrap(err, "set home of session %s", id)
}

func (tx sessionStore) AwaitHome(id perdure.SessionID) error {
	n, err := tx.exec(awaitHome, id, micros(tx.Now()))
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	return wrap(err, "await home of session %s", id)
}

// Release clears the driver under its epoch and records the last seq as seen.
func (tx sessionStore) Release(id perdure.SessionID, epoch int64) error {
	n, err := tx.exec(releaseSession, id, epoch)
	if err == nil && n == 0 {
		_, err = tx.Sessions().Lock(id, epoch) // returns the reason
	}
	return wrap(err, "release session %s", id)
}

func (tx sessionStore) Snapshot(id perdure.SessionID) (store.Snapshot, error) {
	err := tx.hold(id)
	var s store.Snapshot
	if err == nil {
		s, err = one(tx.Tx, scanSnapshot, selectSnapshot, id)
	}
	return wrapped(s, err, "snapshot of session %s", id)
}

func (tx sessionStore) PutSnapshot(id perdure.SessionID, s store.Snapshot) error {
	err := tx.hold(id)
	if err == nil {
		_, err = tx.exec(putSnapshot, id, s.Seq, s.Version, bytesOf(s.Body))
	}
	return wrap(err, "put snapshot of session %s", id)
}

func scanSession(r row) (store.Session, error) {
	var s store.Session
	var title, secret, user, labels []byte
	var created, updated, waits int64
	err := r.Scan(&s.ID, &title, &s.Status, &s.LastSeq, &s.Epoch, &s.Worker, &s.Resumes, &s.SeenSeq, &secret,
		&created, &updated,
		&s.Parent, &s.Root, &s.Forked, &s.Org, &user, &labels, &s.Home, &waits)
	if err != nil {
		return store.Session{}, err
	}
	if len(secret) != len(s.Secret) {
		return store.Session{}, fmt.Errorf("session %s: its secret has %d bytes", s.ID, len(secret))
	}
	if len(labels) > 0 {
		if err := decode(labels, &s.Labels); err != nil {
			return store.Session{}, fmt.Errorf("session %s: its labels: %w", s.ID, err)
		}
	}
	copy(s.Secret[:], secret)
	s.Title, s.User, s.CreatedAt, s.UpdatedAt = string(title), string(user), moment(created), moment(updated)
	s.WaitsSince = moment(waits)
	return s, nil
}

func scanSnapshot(r row) (store.Snapshot, error) {
	var s store.Snapshot
	err := r.Scan(&s.Seq, &s.Version, &s.Body)
	return s, err
}
