package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const resourceColumns = `session_id, resource_id, kind, name, status, metadata, task_id, created_us, updated_us`

// The statements of the registry. The session's row is locked before its entries are written, so
// that positions are assigned one at a time.
const (
	putResource = `INSERT INTO resource (` + resourceColumns + `, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, (SELECT COALESCE(MAX(position), 0) + 1 FROM resource WHERE session_id = $1))
		ON CONFLICT (session_id, resource_id) DO UPDATE SET kind = excluded.kind, name = excluded.name, status = excluded.status,
			metadata = excluded.metadata, task_id = excluded.task_id, updated_us = excluded.updated_us
		RETURNING ` + resourceColumns + `, position`
	selectResource = `SELECT ` + resourceColumns + `, position FROM resource WHERE session_id = $1 AND resource_id = $2`
	removeResource = `DELETE FROM resource WHERE session_id = $1 AND resource_id = $2`

	// resourceFilter contains every condition of store.ResourceFilter. Conditions in front of it
	// only let the database use an index.
	resourceFilter = `($1 = '' OR session_id = $1) AND ($2 = 0 OR resource_id = $3) AND ($4 = 0 OR kind = $5) AND ($6 = '' OR status = $6)`
	listResources  = `SELECT ` + resourceColumns + `, position FROM resource WHERE ` + resourceFilter
	listDetached   = `SELECT ` + resourceColumns + `, position FROM resource WHERE session_id = $1 AND ` +
		resourceFilter
	listByID = `SELECT ` + resourceColumns + `, position FROM resource WHERE resource_id = $3 AND ` +
		resourceFilter
)

// positionedResource is an entry with its position in its session.
type positionedResource struct {
	store.Resource
	position int64
}

func (tx resourceStore) Get(session perdure.SessionID, id string) (perdure.Resource, error) {
	err := tx.hold(session)
	var r positionedResource
	if err == nil {
		r, err = one(tx.Tx, scanResource, selectResource, session, bytesOf(id))
	}
	if err != nil {
		return perdure.Resource{}, fmt.Errorf("resource %q of %s: %w", id, session, err)
	}
	return r.Resource.Resource, nil
}

// List lists entries in the order of their first Put.
func (tx resourceStore) List(filter store.ResourceFilter) ([]store.Resource, error) {
	query := listResources
	switch {
	case filter.ID != "":
		query = listByID
	case filter.Session != "":
		query = listDetached
	}
	err := tx.hold(filter.Session)
	var found []positionedResource
	if err == nil {
		found, err = list(tx.Tx, scanResource, query, filter.Session, len(filter.ID), bytesOf(filter.ID),
			len(filter.Kind), bytesOf(filter.Kind), filter.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", err)
	}
	slices.SortFunc(found, func(a, b positionedResource) int { // not by a collation of the database
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.position, b.position))
	})
	var entries []store.Resource
	for _, r := range found {
		entries = append(entries, r.Resource)
	}
	return entries, nil
}

// Put adds an entry, or replaces the one with its id.
func (tx resourceStore) Put(r store.Resource) (perdure.Resource, error) {
	err := r.Check()
	if err == nil {
		err = tx.hold(r.Session)
	}
	var put positionedResource
	if err == nil {
		put, err = one(tx.Tx, scanResource, putResource, r.Session, bytesOf(r.ID), bytesOf(r.Kind), bytesOf(r.Name),
			r.Status, bytesOf(r.Metadata), r.Task, micros(tx.Now()))
	}
	if err != nil {
		return perdure.Resource{}, fmt.Errorf("put resource %q of %s: %w", r.ID, r.Session, err)
	}
	return put.Resource.Resource, nil
}

func (tx resourceStore) Remove(session perdure.SessionID, id string) (bool, error) {
	err := tx.hold(session)
	var n int64
	if err == nil {
		n, err = tx.exec(removeResource, session, bytesOf(id))
	}
	return wrapped(n > 0, err, "remove resource %q of %s", id, session)
}

// scanResource reads an entry. An unknown status is an error that names the row, never a default.
func scanResource(r row) (found positionedResource, err error) {
	var id, kind, name, metadata []byte
	var created, updated int64
	err = r.Scan(&found.Session, &id, &kind, &name, &found.Status, &metadata, &found.Task, &created, &updated,
		&found.position)
	if err != nil {
		return positionedResource{}, err
	}
	if !found.Status.Valid() {
		return positionedResource{}, fmt.Errorf("resource %q of %s: its stored status %q is not known", id, found.Session,
			found.Status)
	}
	found.ID, found.Kind, found.Name = string(id), string(kind), string(name)
	if len(metadata) > 0 {
		found.Metadata = metadata
	}
	found.CreatedAt, found.UpdatedAt = moment(created), moment(updated)
	return found, nil
}

const (
	leaseColumns = `id, session_id, org, provider, resource_type, external_id, name, status, owner_id, keep, task_id, metadata, expires_us,
	cleanup_us, attempts, last_error, created_us, updated_us`

	// leaseIsDue selects the leases that are due for a cleanup (RS5, RS8): of provider $1 at time
	// $2, where $3 is the time of the oldest claim that is not stale, and $4 the limit of attempts.
	leaseIsDue = `provider = $1 AND status <> 'released' AND (
		status = 'active' AND (expires_us <= $2 OR NOT keep AND task_id <> '' AND NOT EXISTS (SELECT 1 FROM task
			WHERE task.id = lease.task_id AND task.state IN ('queued', 'running', 'awaiting_input')))
		OR status = 'cleanup_failed' AND expires_us <= $2 AND attempts < $4
		OR status = 'cleaning' AND cleanup_us <= $3)`
)

// The statements of leases. cleanup_us only rises, so that no two claims have the same fencing
// token.
const (
	putLease = `INSERT INTO lease (` + leaseColumns + `, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'active', $8, $9, $10, $11, $12, 0, 0, $13, $14, $14,
			(SELECT COALESCE(MAX(position), 0) + 1 FROM lease WHERE session_id = $2))
		ON CONFLICT (org, provider, resource_type, external_id) DO UPDATE SET
			session_id = CASE WHEN lease.status = 'released' THEN excluded.session_id ELSE lease.session_id END,
			position = CASE WHEN lease.status = 'released' AND lease.session_id <> excluded.session_id THEN excluded.position ELSE lease.position END,
			owner_id = CASE WHEN lease.status = 'released' THEN excluded.owner_id ELSE lease.owner_id END,
			task_id = CASE WHEN lease.status = 'released' OR lease.task_id = excluded.task_id THEN excluded.task_id ELSE '' END,
			name = excluded.name, keep = excluded.keep, metadata = excluded.metadata, expires_us = excluded.expires_us,
			status = 'active', attempts = 0, last_error = excluded.last_error, updated_us = excluded.updated_us
		RETURNING ` + leaseColumns
	selectLease = `SELECT ` + leaseColumns +
		` FROM lease WHERE org = $1 AND provider = $2 AND resource_type = $3 AND external_id = $4`
	listLeases   = `SELECT ` + leaseColumns + ` FROM lease WHERE session_id = $1 ORDER BY position`
	listDue      = `SELECT ` + leaseColumns + ` FROM lease WHERE ` + leaseIsDue + ` ORDER BY expires_us LIMIT $5`
	releaseLease = `UPDATE lease SET status = 'released', last_error = $7, updated_us = $6
		WHERE org = $1 AND provider = $2 AND resource_type = $3 AND external_id = $4 AND session_id = $5 AND status <> 'released' RETURNING ` + leaseColumns
	claimLease = `UPDATE lease SET status = 'cleaning', attempts = attempts + 1, updated_us = $2,
		cleanup_us = CASE WHEN cleanup_us >= $2 THEN cleanup_us + 1 ELSE $2 END
		WHERE id = $5 AND ` + leaseIsDue + ` RETURNING ` + leaseColumns
	endCleanup = `UPDATE lease SET status = $3, last_error = $4, updated_us = $5, expires_us = CASE WHEN CAST($6 AS BIGINT) = 0 THEN expires_us ELSE $6 END
		WHERE id = $1 AND status = 'cleaning' AND cleanup_us = $2 RETURNING ` + leaseColumns
	pruneLeases = `DELETE FROM lease WHERE id IN (SELECT id FROM lease WHERE status = 'released' AND updated_us < $1 ORDER BY updated_us LIMIT $2)`
)

func (tx resourceStore) Lease(key store.LeaseKey) (perdure.Lease, error) {
	l, err := one(tx.Tx, scanLease, tx.locked(selectLease), key.Org, bytesOf(key.Provider), bytesOf(key.Type),
		bytesOf(key.ExternalID))
	return wrapped(l, err, "lease of %s", key)
}

// Leases lists the leases that a session created.
func (tx resourceStore) Leases(session perdure.SessionID) ([]perdure.Lease, error) {
	err := tx.hold(session)
	var found []perdure.Lease
	if err == nil {
		found, err = list(tx.Tx, scanLease, tx.locked(listLeases), session)
	}
	return wrapped(found, err, "list leases of %s", session)
}

// DueLeases lists the leases that ClaimLeases would claim.
func (tx resourceStore) DueLeases(due store.LeaseDue) ([]perdure.Lease, error) {
	found, err := list(tx.Tx, scanLease, tx.locked(listDue), tx.dueArgs(due)...)
	if err != nil {
		return nil, fmt.Errorf("list due leases of %q: %w", due.Provider, err)
	}
	slices.SortFunc(found, compareDue)
	return found, nil
}

// dueArgs returns the arguments of leaseIsDue, and a limit.
func (tx *Tx) dueArgs(due store.LeaseDue) []any {
	stale := int64(1) << 62 // every claim is older
	if due.StaleAfter > 0 {
		stale = micros(tx.Now().Add(-due.StaleAfter))
	}
	return []any{bytesOf(due.Provider), micros(tx.Now()), stale, due.MaxAttempts, orAll(due.Limit)}
}

// compareDue orders leases by expiry, then by id.
func compareDue(a, b perdure.Lease) int {
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.ID, b.ID))
}

// PutLease adds a lease, or renews the one with its key, in one statement.
func (tx resourceStore) PutLease(l perdure.Lease, d time.Duration) (perdure.Lease, error) {
	err := store.CheckLease(l)
	if err == nil {
		err = tx.hold(l.Session)
	}
	var put perdure.Lease
	if err == nil {
		put, err = one(tx.Tx, scanLease, putLease, l.ID, l.Session, l.Org, bytesOf(l.Provider), bytesOf(l.Type),
			bytesOf(l.ExternalID), bytesOf(l.Name),
			bytesOf(l.Owner), l.Keep, l.Task, bytesOf(l.Metadata), micros(tx.Now().Add(d)), bytesOf(""), micros(tx.Now()))
	}
	return wrapped(put, err, "put lease of %s", store.KeyOf(l))
}

func (tx resourceStore) ReleaseLease(session perdure.SessionID, key store.LeaseKey) (perdure.Lease, error) {
	err := tx.hold(session)
	var l perdure.Lease
	if err == nil {
		l, err = one(tx.Tx, scanLease, releaseLease, key.Org, bytesOf(key.Provider), bytesOf(key.Type),
			bytesOf(key.ExternalID), session, micros(tx.Now()), bytesOf(""))
	}
	if missing(err) { // released before, or missing
		if l, err = tx.Resources().Lease(key); err == nil && l.Session != session {
			err = perdure.NotFound
		}
	}
	return wrapped(l, err, "release lease of %s", key)
}

// ClaimLeases claims the leases that are due for a cleanup. It checks each of them again after it
// has locked it: a statement that waits for a lock reads other tables, here the tasks, as they were
// before it waited.
func (tx resourceStore) ClaimLeases(due store.LeaseDue) (claimed []perdure.Lease, err error) {
	found, err := tx.Resources().DueLeases(due)
	for _, l := range found {
		if err != nil {
			break
		}
		args := tx.dueArgs(due)
		args[len(args)-1] = l.ID
		if l, err = one(tx.Tx, scanLease, claimLease, args...); missing(err) {
			err = nil
			continue
		}
		claimed = append(claimed, l)
	}
	return wrapped(claimed, err, "claim leases of %q", due.Provider)
}

// EndCleanup records how a cleanup ended, fenced by its claim.
func (tx resourceStore) EndCleanup(end store.LeaseEnd) (perdure.Lease, error) {
	status, again := perdure.LeaseReleased, int64(0)
	if end.Error != "" {
		status, again = perdure.LeaseFailed, micros(tx.Now().Add(end.RetryAfter))
	}
	l, err := one(tx.Tx, scanLease, endCleanup, end.ID, micros(end.Claim), status, bytesOf(end.Error), micros(tx.Now()),
		again)
	if missing(err) {
		err = fmt.Errorf("%w: another owner has it", perdure.Lost)
	}
	return wrapped(l, err, "end cleanup of lease %s", end.ID)
}

// PruneLeases removes leases that were released long ago.
func (tx resourceStore) PruneLeases(before time.Time, limit int) (int, error) {
	n, err := tx.exec(pruneLeases, micros(before), orAll(limit))
	if err != nil {
		return 0, fmt.Errorf("prune leases: %w", err)
	}
	return int(n), nil
}

// scanLease reads a lease. An unknown status is an error that names the row, never a default.
func scanLease(r row) (perdure.Lease, error) {
	var l perdure.Lease
	var provider, kind, external, name, owner, metadata, failure []byte
	var expires, cleanup, created, updated int64
	err := r.Scan(&l.ID, &l.Session, &l.Org, &provider, &kind, &external, &name, &l.Status, &owner, &l.Keep, &l.Task,
		&metadata, &expires,
		&cleanup, &l.Attempts, &failure, &created, &updated)
	if err != nil {
		return perdure.Lease{}, err
	}
	if !l.Status.Valid() {
		return perdure.Lease{}, fmt.Errorf("lease %s: its stored status %q is not known", l.ID, l.Status)
	}
	l.Provider, l.Type, l.ExternalID, l.Name = string(provider), string(kind), string(external), string(name)
	l.Owner, l.LastError = string(owner), string(failure)
	if len(metadata) > 0 {
		l.Metadata = metadata
	}
	if l.Status == perdure.LeaseCleaning {
		l.CleanupAt = moment(cleanup)
	}
	l.ExpiresAt, l.CreatedAt, l.UpdatedAt = moment(expires), moment(created), moment(updated)
	return l, nil
}
