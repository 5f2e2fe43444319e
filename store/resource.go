package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Bounds of what names a resource: together they are one entry of an index, which Postgres does not let grow beyond
// 2,704 bytes.
const (
	MaxResourceIDBytes = 256     // of an entry's id
	MaxLeaseWordBytes  = 256     // of a lease's provider, and of its type
	MaxExternalIDBytes = 1 << 10 // of a lease
)

// Resource is an entry of the registry with its session (RS1).
type Resource struct {
	Session perdure.SessionID
	perdure.Resource
}

// Check says whether an entry may be stored. Invalid: what is wrong with it.
func (r Resource) Check() error {
	if r.Session == "" || r.ID == "" || len(r.ID) > MaxResourceIDBytes || !r.Status.Valid() {
		return fmt.Errorf("%w resource %q of session %q in status %q: an id has 1 to %d bytes", perdure.Invalid, r.ID, r.Session, r.Status, MaxResourceIDBytes)
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

// Matches reports whether an entry passes.
func (f ResourceFilter) Matches(r Resource) bool {
	return (f.Session == "" || f.Session == r.Session) && (f.ID == "" || f.ID == r.ID) &&
		(f.Kind == "" || f.Kind == r.Kind) && (f.Status == "" || f.Status == r.Status)
}

// LeaseKey is what makes a leased resource the one that it is (RS2): what two orgs call alike are two resources. All four are
// bytes: nothing about them is folded.
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

// String names the resource for errors.
func (k LeaseKey) String() string {
	return fmt.Sprintf("%.40q %.40q %.40q", k.Provider, k.Type, k.ExternalID)
}

// CheckLease says whether a lease may be stored. Invalid: what is wrong with it.
func CheckLease(l perdure.Lease) error {
	fits := func(word string, most int) bool { return word != "" && len(word) <= most }
	if l.ID == "" || l.Session == "" {
		return fmt.Errorf("%w lease: it has no id or no session", perdure.Invalid)
	}
	if !fits(l.Provider, MaxLeaseWordBytes) || !fits(l.Type, MaxLeaseWordBytes) || !fits(l.ExternalID, MaxExternalIDBytes) {
		return fmt.Errorf("%w lease of %s: provider and type have 1 to %d bytes each, an external id 1 to %d", perdure.Invalid, KeyOf(l), MaxLeaseWordBytes, MaxExternalIDBytes)
	}
	return nil
}

// LeaseDue says which leases are due for a clean-up: of one provider, and active and expired, or active and held by a task
// alone that lives no more, or failed before and expired again, or claimed by somebody who did not come back (RS5, RS8).
type LeaseDue struct {
	Provider string
	Attempts int           // a failed one with so many is not due any more (RS6); 0: it never is
	Stale    time.Duration // since the claim of one that is being cleaned up; 0: every such claim counts as stale
	Limit    int           // 0: no limit
}

// LeaseEnd is how a clean-up ended.
type LeaseEnd struct {
	ID    perdure.LeaseID
	Claim time.Time     // the CleanupAt under which it was claimed: the fence
	Error string        // empty: the resource is gone
	Pause time.Duration // from now, before it is tried again; only with Error
}

// ResourceReader reads what stands beside sessions.
type ResourceReader interface {
	// Resource returns an entry. NotFound: the session has none of that id.
	Resource(session perdure.SessionID, id string) (perdure.Resource, error)
	// Resources lists entries in the order in which they were put first, session by session.
	Resources(filter ResourceFilter) ([]Resource, error)
	// Lease returns a lease. NotFound: there is none.
	Lease(key LeaseKey) (perdure.Lease, error)
	// Leases lists the leases that a session made, in the order of their making, released ones too. One whose session was
	// removed is nobody's, and stands under the empty id.
	Leases(session perdure.SessionID) ([]perdure.Lease, error)
	// DueLeases lists what ClaimLeases would claim, the longest expired first, and changes nothing.
	DueLeases(due LeaseDue) ([]perdure.Lease, error)
}

// ResourceWriter writes the registry. Of each session and id there is one entry; all go with their session.
type ResourceWriter interface {
	// PutResource adds an entry, or replaces the one that has its id, which keeps its place and the moment of its making.
	// Both moments are the store's clock, whatever r says. It returns the entry as it is stored. Invalid: what Check says.
	PutResource(r Resource) (perdure.Resource, error)
	// RemoveResource removes an entry and says whether it was there.
	RemoveResource(session perdure.SessionID, id string) (bool, error)
}

// LeaseWriter writes leases. Of each key there is one row, and it may outlive its session. CleanupAt is the fence of the
// cleaner that has it: no two claims of a lease have the same one, however the clock goes.
type LeaseWriter interface {
	// PutLease adds a lease, or refreshes the one that has its key: it is active until d from now by the store's clock,
	// with no attempts, and whoever was cleaning it up has lost it. The caller fills in ID, Session, Org, Provider, Type,
	// ExternalID, Name, Owner, Keep, Task and Metadata. One that is there keeps its id, and while it is not released also
	// its session and its owner; a task other than its own makes it nobody's alone. It returns the lease as it is stored.
	// Invalid: what CheckLease says.
	PutLease(l perdure.Lease, d time.Duration) (perdure.Lease, error)
	// ReleaseLease ends a lease of a session, whatever its status (RS4); one that was released stays as it is. NotFound:
	// the session made no such lease.
	ReleaseLease(session perdure.SessionID, key LeaseKey) (perdure.Lease, error)
	// ClaimLeases claims what is due for a clean-up, the longest expired first, in one step: each is cleaning, with one
	// attempt more and a CleanupAt that it never had. Of two that claim at once, one gets a lease (RS5).
	ClaimLeases(due LeaseDue) ([]perdure.Lease, error)
	// EndCleanup records how a clean-up ended: released, or cleanup_failed with an expiry after the pause. Lost: the lease
	// was refreshed or released meanwhile, or somebody else has claimed it, or it is not there; nothing was changed.
	EndCleanup(end LeaseEnd) (perdure.Lease, error)
	// PruneLeases forgets up to limit leases that were released before a moment, and returns how many there were; limit 0
	// means all of them. The moment is cut to microseconds.
	PruneLeases(before time.Time, limit int) (int, error)
}
