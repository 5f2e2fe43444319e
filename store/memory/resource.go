package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// leaseRow is a lease with the fence of its last claim, which it keeps when it is refreshed.
type leaseRow struct {
	perdure.Lease
	fence time.Time
}

func (v resourceStore) Get(session perdure.SessionID, id string) (perdure.Resource, error) {
	r, ok := v.resources.get(resourceKey(session, id))
	if !ok {
		return perdure.Resource{}, fmt.Errorf("resource %q of %s: %w", id, session, perdure.NotFound)
	}
	return cloneResource(r.value).Resource, nil
}

// List lists entries in the order in which they were first put.
func (v resourceStore) List(filter store.ResourceFilter) ([]store.Resource, error) {
	var found []row[store.Resource]
	for _, r := range v.resources.from("") {
		if filter.Matches(r.value) {
			r.value = cloneResource(r.value)
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b row[store.Resource]) int {
		return cmp.Or(cmp.Compare(a.value.Session, b.value.Session), cmp.Compare(a.position, b.position))
	})
	var entries []store.Resource
	for _, r := range found {
		entries = append(entries, r.value)
	}
	return entries, nil
}

// Put adds an entry, or replaces the one with its id.
func (t resourceStore) Put(r store.Resource) (perdure.Resource, error) {
	if err := r.Check(); err != nil {
		return perdure.Resource{}, fmt.Errorf("put resource: %w", err)
	}
	key := resourceKey(r.Session, r.ID)
	known, ok := t.resources.get(key)
	r = cloneResource(r)
	r.CreatedAt, r.UpdatedAt = t.now, t.now
	if ok {
		r.CreatedAt = known.value.CreatedAt
	} else {
		known.position = t.nextPosition()
	}
	t.resources = t.resources.put(key, row[store.Resource]{known.position, r})
	return cloneResource(r).Resource, nil
}

func (t resourceStore) Remove(session perdure.SessionID, id string) (bool, error) {
	key := resourceKey(session, id)
	there := t.resources.has(key)
	t.resources = t.resources.remove(key)
	return there, nil
}

func (v resourceStore) Lease(key store.LeaseKey) (perdure.Lease, error) {
	r, ok := v.leases.get(leaseKey(key))
	if !ok {
		return perdure.Lease{}, fmt.Errorf("lease of %s: %w", key, perdure.NotFound)
	}
	return r.value.lease(), nil
}

// Leases lists the leases that a session made.
func (v resourceStore) Leases(session perdure.SessionID) ([]perdure.Lease, error) {
	var found []row[perdure.Lease]
	for _, r := range v.leases.from("") {
		if r.value.Session == session {
			found = append(found, row[perdure.Lease]{r.position, r.value.lease()})
		}
	}
	return inOrder(found), nil
}

// DueLeases lists the leases that may be claimed.
func (v resourceStore) DueLeases(due store.LeaseDue) ([]perdure.Lease, error) {
	var found []perdure.Lease
	for _, r := range v.leases.from("") {
		if v.isDue(r.value, due) {
			found = append(found, r.value.lease())
		}
	}
	slices.SortFunc(found, compareDue)
	return first(found, due.Limit), nil
}

// compareDue orders leases by their expiry.
func compareDue(a, b perdure.Lease) int {
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.ID, b.ID))
}

// isDue reports whether a lease may be claimed for cleanup.
func (v *tx) isDue(l leaseRow, due store.LeaseDue) bool {
	expired := !l.ExpiresAt.After(v.now)
	switch {
	case l.Provider != due.Provider:
		return false
	case l.Status == perdure.LeaseActive:
		return expired || !l.Keep && l.Task != "" && !v.isLive(l.Task)
	case l.Status == perdure.LeaseFailed:
		return expired && l.Attempts < due.MaxAttempts
	}
	return l.Status == perdure.LeaseCleaning && (due.StaleAfter <= 0 || !l.fence.After(v.now.Add(-due.StaleAfter)))
}

// isLive reports whether a task has not ended.
func (v *tx) isLive(id perdure.TaskID) bool {
	task, ok := v.tasks.get(string(id))
	return ok && task.value.State.Live()
}

// PutLease adds a lease, or refreshes the one with its key.
func (t resourceStore) PutLease(l perdure.Lease, d time.Duration) (perdure.Lease, error) {
	if err := store.CheckLease(l); err != nil {
		return perdure.Lease{}, fmt.Errorf("put lease: %w", err)
	}
	fresh := perdure.Lease{
		ID: l.ID, Session: l.Session, Org: l.Org, Provider: l.Provider, Type: l.Type, ExternalID: l.ExternalID,
		Name: l.Name, Status: perdure.LeaseActive,
		Owner: l.Owner, Keep: l.Keep, Task: l.Task, Metadata: clone(l.Metadata), ExpiresAt: micro(t.now.Add(d)),
		CreatedAt: t.now, UpdatedAt: t.now,
	}
	known, ok := t.leases.get(leaseKey(store.KeyOf(l)))
	switch {
	case !ok:
		known.position = t.nextPosition()
	case known.value.Status == perdure.LeaseReleased:
		if known.value.Session != l.Session {
			known.position = t.nextPosition()
		}
	default:
		fresh.Session, fresh.Owner = known.value.Session, known.value.Owner
		if known.value.Task != l.Task {
			fresh.Task = ""
		}
	}
	if ok {
		fresh.ID, fresh.CreatedAt = known.value.ID, known.value.CreatedAt
	}
	return t.putLease(known, fresh), nil
}

func (t resourceStore) ReleaseLease(session perdure.SessionID, key store.LeaseKey) (perdure.Lease, error) {
	r, ok := t.leases.get(leaseKey(key))
	switch {
	case !ok || r.value.Session != session:
		return perdure.Lease{}, fmt.Errorf("release lease of %s: %w", key, perdure.NotFound)
	case r.value.Status == perdure.LeaseReleased:
		return r.value.lease(), nil
	}
	released := r.value.Lease
	released.Status, released.LastError, released.UpdatedAt = perdure.LeaseReleased, "", t.now
	return t.putLease(r, released), nil
}

// ClaimLeases claims the leases that are due for cleanup.
func (t resourceStore) ClaimLeases(due store.LeaseDue) ([]perdure.Lease, error) {
	found, err := t.Resources().DueLeases(due)
	for i, l := range found {
		r, _ := t.leases.get(leaseKey(store.KeyOf(l)))
		if fence := r.value.fence.Add(time.Microsecond); fence.After(t.now) {
			r.value.fence = fence
		} else {
			r.value.fence = t.now
		}
		l.Status, l.UpdatedAt = perdure.LeaseCleaning, t.now
		l.Attempts++
		found[i] = t.putLease(r, l)
	}
	return found, err
}

func (t resourceStore) EndCleanup(end store.LeaseEnd) (perdure.Lease, error) {
	for _, r := range t.leases.from("") {
		l := r.value.Lease
		if l.ID != end.ID || l.Status != perdure.LeaseCleaning || !r.value.fence.Equal(end.Claim) {
			continue
		}
		l.Status, l.LastError, l.UpdatedAt = perdure.LeaseReleased, "", t.now
		if end.Error != "" {
			l.Status, l.LastError, l.ExpiresAt = perdure.LeaseFailed, end.Error, micro(t.now.Add(end.RetryAfter))
		}
		return t.putLease(r, l), nil
	}
	return perdure.Lease{}, fmt.Errorf("end cleanup of lease %s: %w: another owner has it", end.ID, perdure.Lost)
}

// PruneLeases forgets leases that were released long ago.
func (t resourceStore) PruneLeases(before time.Time, limit int) (int, error) {
	var old []perdure.Lease
	for _, r := range t.leases.from("") {
		if r.value.Status == perdure.LeaseReleased && r.value.UpdatedAt.Before(micro(before)) {
			old = append(old, r.value.Lease)
		}
	}
	slices.SortFunc(old, func(a, b perdure.Lease) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	old = first(old, limit)
	for _, l := range old {
		t.leases = t.leases.remove(leaseKey(store.KeyOf(l)))
	}
	return len(old), nil
}

// putLease writes a lease with the position and the fence of its row, and returns it as stored.
func (t *tx) putLease(r row[leaseRow], l perdure.Lease) perdure.Lease {
	r.value.Lease = l
	t.leases = t.leases.put(leaseKey(store.KeyOf(l)), r)
	return r.value.lease()
}

// lease returns a copy of the lease, with the fence while a cleanup is running.
func (l leaseRow) lease() perdure.Lease {
	found := l.Lease
	found.Metadata, found.CleanupAt = clone(found.Metadata), time.Time{}
	if found.Status == perdure.LeaseCleaning {
		found.CleanupAt = l.fence
	}
	return found
}

func cloneResource(r store.Resource) store.Resource {
	r.Metadata = clone(r.Metadata)
	return r
}

// resourceKey joins a session and an id of any bytes into one key.
func resourceKey(session perdure.SessionID, id string) string { return requestKey(string(session), id) }

// leaseKey joins the texts of a key, of any bytes, into one key.
func leaseKey(key store.LeaseKey) string {
	return requestKey(key.Org, requestKey(key.Provider, requestKey(key.Type, key.ExternalID)))
}
