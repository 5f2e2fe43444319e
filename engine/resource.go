package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Resources is what stands beside sessions (RS1). NotFound, in all of them: no such session or entry.
type Resources interface {
	// Resources lists the entries of a session, in the order of their first registration.
	Resources(ctx context.Context, id perdure.SessionID) ([]SessionResource, error)
	// Resource returns an entry.
	Resource(ctx context.Context, id perdure.SessionID, resource string) (SessionResource, error)
	// ReleaseResource records a person's word that what an entry stands for is gone: it takes nothing down itself, and what is
	// leased is not cleaned up any more (RS4). An entry that was released stays as it is. Conflict: its task is at work, it has
	// ended in another way, or the lease is another session's.
	ReleaseResource(ctx context.Context, id perdure.SessionID, resource, by string) (SessionResource, error)
}

// SessionResource is an entry of the registry of a session as callers see it. The fields of the lease are empty where there is
// none.
type SessionResource struct {
	perdure.Resource
	Lease     perdure.LeaseStatus `json:"lease_status,omitempty"`
	ExpiresAt time.Time           `json:"lease_expires_at,omitzero"`
	Attempts  int                 `json:"cleanup_attempts,omitempty"`
	LastError string              `json:"last_error,omitempty"` // of the clean-up, without secrets
}
