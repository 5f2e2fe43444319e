package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Resources is what stands beside a session, for all to see (the port "Session resource registry"; RS1). Entries go
// with the session.
type Resources interface {
	// Register adds an entry, or replaces the one of its id.
	Register(ctx context.Context, r Resource) (Resource, error)
	// UpdateStatus sets a status. NotFound: no such entry. Conflict: the entry has a terminal status, which only
	// registering again leaves.
	UpdateStatus(ctx context.Context, id string, s ResourceStatus) (Resource, error)
	// Resource returns an entry. NotFound: there is none.
	Resource(ctx context.Context, id string) (Resource, error)
	// List returns the entries in the order of their first registration; an empty kind or status fits all.
	List(ctx context.Context, kind string, s ResourceStatus) ([]Resource, error)
	// Deregister removes an entry and says whether it was there.
	Deregister(ctx context.Context, id string) (bool, error)
}

// ResourceStatus is how a resource stands.
type ResourceStatus string

// The statuses of a resource; all but active are terminal.
const (
	ResourceActive    ResourceStatus = "active"
	ResourceCompleted ResourceStatus = "completed"
	ResourceFailed    ResourceStatus = "failed"
	ResourceReleased  ResourceStatus = "released"
)

// Resource is an entry of the registry.
type Resource struct {
	ID        string          `json:"resource_id"` // unique in its session, 1 to 256 bytes
	Kind      string          `json:"kind"`        // sandbox, browser, connection …: any word
	Name      string          `json:"display_name"`
	Status    ResourceStatus  `json:"status"`             // empty on the way in: active
	Metadata  json.RawMessage `json:"metadata,omitempty"` // an object without secrets, at most 16 KiB
	Task      perdure.TaskID  `json:"task_id,omitempty"`  // whose it is
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// Leases is remote state that somebody must clean up (the port "Leased resource store"; RS2 to RS7).
type Leases interface {
	// Lease records a resource, or refreshes the lease of the one that it is: the same provider, type and external id.
	// It is active again, and a cleanup that was under way has lost it.
	Lease(ctx context.Context, o LeaseOrder) (Lease, error)
	// Release says that the resource is gone; nothing cleans it up any more. NotFound: no such lease of this session.
	Release(ctx context.Context, provider, kind, externalID string) (Lease, error)
	// List returns the session's leases in the order of their making, released ones too.
	List(ctx context.Context) ([]Lease, error)
}

// LeaseOrder is a resource that was made or used.
type LeaseOrder struct {
	Provider   string
	Type       string
	ExternalID string
	Name       string          // for people; empty: the type and the external id
	For        time.Duration   // from now, by the store's clock; at least a second
	Owner      string          // whose connection made it, and cleans it up (RS7); empty: nobody's
	Keep       bool            // it stays when the task ends that holds it (RS8)
	Metadata   json.RawMessage // an object without secrets; empty: {}
	Task       perdure.TaskID  // that holds it; empty: the session
}

// LeaseStatus is how a lease stands.
type LeaseStatus string

// The statuses of a lease.
const (
	LeaseActive        LeaseStatus = "active"
	LeaseCleaning      LeaseStatus = "cleaning"       // a cleaner has claimed it
	LeaseCleanupFailed LeaseStatus = "cleanup_failed" // it is tried again when it has expired, up to a number of attempts
	LeaseReleased      LeaseStatus = "released"
)

// Lease is a leased resource.
type Lease struct {
	ID         perdure.LeaseID   `json:"id"`
	Session    perdure.SessionID `json:"session_id"`
	Provider   string            `json:"provider"`
	Type       string            `json:"resource_type"`
	ExternalID string            `json:"external_id"`
	Name       string            `json:"display_name"`
	Status     LeaseStatus       `json:"status"`
	Owner      string            `json:"owner_user_id,omitempty"`
	Keep       bool              `json:"keep,omitempty"`
	Task       perdure.TaskID    `json:"task_id,omitempty"`
	Metadata   json.RawMessage   `json:"metadata,omitempty"`
	ExpiresAt  time.Time         `json:"lease_expires_at"`
	CleanupAt  time.Time         `json:"cleanup_started_at,omitzero"` // the fence of the cleaner that has it
	Attempts   int               `json:"cleanup_attempts"`
	LastError  string            `json:"last_error,omitempty"` // redacted
	CreatedAt  time.Time         `json:"created_at"`
	UpdatedAt  time.Time         `json:"updated_at"`
}

// Connections is what the session's user is connected to (the port "Connection resolver"; CN1). Nothing of it may
// enter a task, an artifact or an event.
type Connections interface {
	// Token returns the token, looked up now. NotFound: not connected; a tool answers with [ConnectionRequired].
	Token(ctx context.Context, provider string) (string, error)
	// Owner is whose connection it is, for a lease. NotFound: not connected.
	Owner(ctx context.Context, provider string) (string, error)
	// Metadata is what stands beside the token, a JSON object. NotFound: not connected.
	Metadata(ctx context.Context, provider string) (json.RawMessage, error)
}
