package perdure

import (
	"encoding/json"
	"time"
)

// ResourceStatus is the status of a resource.
type ResourceStatus string

// The statuses of a resource; all but active are terminal.
const (
	ResourceActive    ResourceStatus = "active"
	ResourceCompleted ResourceStatus = "completed"
	ResourceFailed    ResourceStatus = "failed"
	ResourceReleased  ResourceStatus = "released"
)

// Valid reports whether s is a status of a resource.
func (s ResourceStatus) Valid() bool {
	return s == ResourceActive || s == ResourceCompleted || s == ResourceFailed || s == ResourceReleased
}

// Resource is an entry in the registry of things that a session uses outside of it.
type Resource struct {
	ID        string          `json:"resource_id"` // unique in its session, 1 to 256 bytes
	Kind      string          `json:"kind"`        // any word: sandbox, browser, connection …
	Name      string          `json:"display_name"`
	Status    ResourceStatus  `json:"status"`             // empty in a request means active
	Metadata  json.RawMessage `json:"metadata,omitempty"` // a JSON object without secrets, at most 16 KiB
	Task      TaskID          `json:"task_id,omitempty"`  // the task that it belongs to
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// LeaseStatus is the status of a lease.
type LeaseStatus string

// The statuses of a lease.
const (
	LeaseActive   LeaseStatus = "active"
	LeaseCleaning LeaseStatus = "cleaning"       // a cleanup is running
	LeaseFailed   LeaseStatus = "cleanup_failed" // the cleanup failed and is retried a limited number of times
	LeaseReleased LeaseStatus = "released"
)

// Valid reports whether s is a status of a lease.
func (s LeaseStatus) Valid() bool {
	return s == LeaseActive || s == LeaseCleaning || s == LeaseFailed || s == LeaseReleased
}

// Lease is a leased resource: remote state that must be cleaned up. Provider, type and external id
// together identify it.
type Lease struct {
	ID         LeaseID         `json:"id"`
	Session    SessionID       `json:"session_id"`    // the session that created it
	Org        string          `json:"org,omitempty"` // of that session; empty: the default org
	Provider   string          `json:"provider"`
	Type       string          `json:"resource_type"`
	ExternalID string          `json:"external_id"`
	Name       string          `json:"display_name"`
	Status     LeaseStatus     `json:"status"`
	Owner      string          `json:"owner_user_id,omitempty"` // its connection created it and is used by the cleanup
	Keep       bool            `json:"keep,omitempty"`          // it stays when its task ends
	Task       TaskID          `json:"task_id,omitempty"`       // the only holder; empty: the session holds it
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	ExpiresAt  time.Time       `json:"lease_expires_at"`
	CleanupAt  time.Time       `json:"cleanup_started_at,omitzero"` // fencing token of the running cleanup
	Attempts   int             `json:"cleanup_attempts"`
	LastError  string          `json:"last_error,omitempty"` // redacted
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

// ResourceUpdated says that an entry of the resource registry was written or removed.
type ResourceUpdated struct {
	Entry   Resource `json:"entry"`
	Removed bool     `json:"removed,omitempty"`
}

// LeaseExpired says that the cleanup of a leased resource starts.
type LeaseExpired struct {
	Lease Lease `json:"lease"`
}

// LeaseCleanupFailed says that the cleanup of a leased resource is not tried again; a person has to
// do it.
type LeaseCleanupFailed struct {
	Lease Lease `json:"lease"`
}
