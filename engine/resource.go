package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Resources reads and releases the external resources of sessions (RS1). NotFound, in every method:
// no such session or resource.
type Resources interface {
	// List lists the entries of a session in the order of their first registration.
	List(ctx context.Context, id perdure.SessionID) ([]SessionResource, error)
	// Get returns an entry.
	Get(ctx context.Context, id perdure.SessionID, resource string) (SessionResource, error)
	// Release records a person's statement that a resource no longer exists. It does not
	// remove the resource itself, and cancels the cleanup of a lease (RS4). Releasing a released
	// entry does nothing. Conflict: the task of the resource is running, the entry has ended in
	// another way, or the lease belongs to another session.
	Release(ctx context.Context, id perdure.SessionID, resource, by string) (SessionResource, error)
}

// SessionResource is an entry of the resource registry of a session as callers see it. The lease
// fields are empty for an entry without a lease.
type SessionResource struct {
	perdure.Resource
	Lease     perdure.LeaseStatus `json:"lease_status,omitempty"`
	ExpiresAt time.Time           `json:"lease_expires_at,omitzero"`
	Attempts  int                 `json:"cleanup_attempts,omitempty"`
	LastError string              `json:"last_error,omitempty"` // of the cleanup, without secrets
}
