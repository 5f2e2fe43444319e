package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Limits of the fields that identify a resource. Together they are one index entry, which Postgres
// limits to 2,704 bytes.
const (
	MaxResourceIDBytes = 256     // of an entry's id
	MaxLeaseTextBytes  = 256     // of a lease's provider, and of its type
	MaxExternalIDBytes = 1 << 10 // of a lease
)

// Resource is an entry of the registry with its session.
type Resource struct {
	Session perdure.SessionID
	perdure.Resource
}

// Check checks an entry. Invalid: the error says what is wrong.
func (r Resource) Check() error {
	if r.Session == "" || r.ID == "" || len(r.ID) > MaxResourceIDBytes || !r.Status.Valid() {
		return fmt.Errorf("%w resource %q of session %q in status %q: an id needs 1 to %d bytes", perdure.Invalid,
			r.ID, r.Session, r.Status, MaxResourceIDBytes)
	}
	return nil
}

// ResourceFilter narrows a list of entries. The zero value lists all.
type ResourceFilter struct {
	Session perdure.SessionID      // empty: of all sessions
	ID      string                 // empty: any
	Kind    string                 // empty: any
	Status  perdure.ResourceStatus // empty: any
}

// Matches reports whether an entry matches the filter.
func (f ResourceFilter) Matches(r Resource) bool {
	return (f.Session == "" || f.Session == r.Session) && (f.ID == "" || f.ID == r.ID) &&
		(f.Kind == "" || f.Kind == r.Kind) && (f.Status == "" || f.Status == r.Status)
}

// LeaseKey identifies a leased resource. Resources with the same name in two orgs are different.
// All fields are bytes: they are not normalised in any way.
type LeaseKey struct {
	Org        string // of the session; empty: the default one
	Provider   string
	Type       string
	ExternalID string
}

// KeyOf returns the key of a lease.
func KeyOf(l perdure.Lease) LeaseKey {
	return LeaseKey{Org: l.Org, Provider: l.Provider, Type: l.Type, ExternalID: l.ExternalID}
}

// String returns the key for error texts.
func (k LeaseKey) String() string {
	return fmt.Sprintf("%.40q %.40q %.40q", k.Provider, k.Type, k.ExternalID)
}

// CheckLease checks a lease. Invalid: the error says what is wrong.
func CheckLease(l perdure.Lease) error {
	fits := func(word string, limit int) bool { return word != "" && len(word) <= limit }
	if l.ID == "" || l.Session == "" {
		return fmt.Errorf("%w lease: it has no id or no session", perdure.Invalid)
	}
	if !fits(l.Provider, MaxLeaseTextBytes) || !fits(l.Type, MaxLeaseTextBytes) ||
		!fits(l.ExternalID, MaxExternalIDBytes) {
		return fmt.Errorf("%w lease of %s: provider and type need 1 to %d bytes each, an external id 1 to %d",
			perdure.Invalid, KeyOf(l), MaxLeaseTextBytes, MaxExternalIDBytes)
	}
	return nil
}

// LeaseDue selects the leases that are due for a cleanup. Of one provider, these are: active and
// expired ones, active ones held only by a task that has ended, ones whose last cleanup failed and
// that have expired again, and ones that were claimed for a cleanup that never ended.
type LeaseDue struct {
	Provider    string
	MaxAttempts int           // a lease with that many failed attempts is no longer due; 0: a failed lease is never due
	StaleAfter  time.Duration // age of a claim from which its cleanup counts as abandoned; 0: every claim does
	Limit       int           // 0: no limit
}

// LeaseEnd is how a cleanup ended.
type LeaseEnd struct {
	ID         perdure.LeaseID
	Claim      time.Time     // the CleanupAt of the claim, which is the fence
	Error      string        // empty: the resource is removed
	RetryAfter time.Duration // from now, before the next attempt; only with Error
}

// ResourceReader reads resources and leases.
type ResourceReader interface {
	// Get returns an entry. NotFound: the session has none with that id.
	Get(session perdure.SessionID, id string) (perdure.Resource, error)
	// List lists entries in the order of their first Put, session by session.
	List(filter ResourceFilter) ([]Resource, error)
	// Lease returns a lease. NotFound: there is none.
	Lease(key LeaseKey) (perdure.Lease, error)
	// Leases lists the leases that a session created, in the order of creation, including released
	// ones. A lease whose session was removed is listed under the empty id.
	Leases(session perdure.SessionID) ([]perdure.Lease, error)
	// DueLeases lists what ClaimLeases would claim, the longest expired first. It changes nothing.
	DueLeases(due LeaseDue) ([]perdure.Lease, error)
}

// ResourceWriter writes the registry. There is one entry for each session and id; entries are
// removed with their session.
type ResourceWriter interface {
	// Put adds an entry, or replaces the one with its id, which keeps its position and its
	// creation time. The store sets both times. It returns the entry as stored. Invalid: as Check
	// says.
	Put(r Resource) (perdure.Resource, error)
	// Remove removes an entry and reports whether it existed.
	Remove(session perdure.SessionID, id string) (bool, error)
}

// LeaseWriter writes leases. There is one row for each key, and it may outlive its session.
// CleanupAt is the fencing token of a cleanup: no two claims of a lease have the same one, even if
// the clock is set back.
type LeaseWriter interface {
	// PutLease adds a lease, or renews the one with its key: it is active until d from now, by the
	// store's clock, with no attempts, and a cleanup in progress loses its claim. The caller fills
	// in ID, Session, Org, Provider, Type, ExternalID, Name, Owner, Keep, Task and Metadata. An
	// existing lease keeps its id, and unless it is released also its session and its owner. If
	// another task renews it, it is no longer held by a task alone. It returns the lease as stored.
	// Invalid: as CheckLease says.
	PutLease(l perdure.Lease, d time.Duration) (perdure.Lease, error)
	// ReleaseLease ends a lease of a session, whatever its status; a released one is not changed.
	// NotFound: the session created no such lease.
	ReleaseLease(session perdure.SessionID, key LeaseKey) (perdure.Lease, error)
	// ClaimLeases claims the leases that are due for a cleanup, the longest expired first, in one
	// step: each is cleaning, with one more attempt and a new CleanupAt. Of two concurrent callers,
	// one gets a lease.
	ClaimLeases(due LeaseDue) ([]perdure.Lease, error)
	// EndCleanup records how a cleanup ended: released, or cleanup_failed with an expiry after the
	// pause. Lost: the lease was renewed, released or claimed by another in the meantime, or does
	// not exist; nothing was changed.
	EndCleanup(end LeaseEnd) (perdure.Lease, error)
	// PruneLeases removes up to limit leases that were released before a time, and returns how many
	// it removed; limit 0 means all. The time is truncated to microseconds.
	PruneLeases(before time.Time, limit int) (int, error)
}
