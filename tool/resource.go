package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Resources lists what the session uses outside of it (the port "Session resource registry").
// Entries are deleted with the session.
type Resources interface {
	// Register adds an entry, or replaces the one with the same id.
	Register(ctx context.Context, r Resource) (Resource, error)
	// UpdateStatus sets a status. NotFound: no such entry. Conflict: the entry has a terminal
	// status, which only another Register can leave.
	UpdateStatus(ctx context.Context, id string, s ResourceStatus) (Resource, error)
	// Resource returns an entry. NotFound: no such entry.
	Resource(ctx context.Context, id string) (Resource, error)
	// List returns the entries in the order of their first registration; an empty kind or status
	// matches all.
	List(ctx context.Context, kind string, s ResourceStatus) ([]Resource, error)
	// Deregister removes an entry and reports whether it existed.
	Deregister(ctx context.Context, id string) (bool, error)
}

// ResourceStatus is the status of a resource.
type ResourceStatus = perdure.ResourceStatus

// The statuses of a resource; all but active are terminal.
const (
	ResourceActive    = perdure.ResourceActive
	ResourceCompleted = perdure.ResourceCompleted
	ResourceFailed    = perdure.ResourceFailed
	ResourceReleased  = perdure.ResourceReleased
)

// Resource is an entry of the registry.
type Resource = perdure.Resource

// Leases records remote state that must be cleaned up (the port "Leased resource store").
type Leases interface {
	// Lease records a resource, or renews the lease of the same one: with the same provider, type
	// and external id. The lease is active again, and a running cleanup has lost it. Session and
	// owner stay the original ones until it is released. If another task leases it too, no single
	// task holds it any more. The lease is also an entry of [Resources], under the lease's id.
	// Invalid: o is wrong. NotFound: the task does not exist in this session.
	Lease(ctx context.Context, o LeaseRequest) (Lease, error)
	// Release says that the resource no longer exists, so it is not cleaned up. NotFound: no such
	// lease of this session.
	Release(ctx context.Context, provider, kind, externalID string) (Lease, error)
	// List returns the session's leases in the order of their creation, including released ones.
	List(ctx context.Context) ([]Lease, error)
}

// LeaseRequest describes a resource that was created or used.
type LeaseRequest struct {
	Provider   string
	Type       string
	ExternalID string
	Name       string          // for people; empty: the type and the external id
	Duration   time.Duration   // from now, by the store's clock; at least one second
	Owner      string          // the user whose connection created it; the cleanup uses the same one; empty: none
	Keep       bool            // it stays when the task that holds it ends
	Metadata   json.RawMessage // an object without secrets; empty: {}
	Task       perdure.TaskID  // the task that holds it; empty: the session
}

// LeaseStatus is the status of a lease.
type LeaseStatus = perdure.LeaseStatus

// The statuses of a lease.
const (
	LeaseActive        = perdure.LeaseActive
	LeaseCleaning      = perdure.LeaseCleaning // a cleanup is running
	LeaseCleanupFailed = perdure.LeaseFailed
	LeaseReleased      = perdure.LeaseReleased
)

// Lease is a leased resource.
type Lease = perdure.Lease

// LeaseCleaner removes the resources of one provider after their leases have expired. The host
// implements it.
type LeaseCleaner interface {
	// Clean removes a resource; one that no longer exists is not an error. It may run twice for the
	// same resource, so repeating it must do no harm. It returns soon after ctx has ended. token
	// returns the token of the connection that created the resource, looked up when it is called.
	// After an error it is called again later, at growing intervals; the error text is stored
	// without secrets. Safe for concurrent use.
	Clean(ctx context.Context, l Lease, token func(context.Context) (string, error)) error
}

// Connections gives access to the connections of the session's user (the port "Connection
// resolver"). Tokens must not enter a task, an artifact or an event.
type Connections interface {
	// Token returns the token, looked up now. NotFound: not connected; a tool answers with
	// [ConnectionRequired].
	Token(ctx context.Context, provider string) (string, error)
	// Owner returns the owner of the connection, for a lease. NotFound: not connected.
	Owner(ctx context.Context, provider string) (string, error)
	// Metadata returns the data that is stored with the token, a JSON object. NotFound: not
	// connected.
	Metadata(ctx context.Context, provider string) (json.RawMessage, error)
}
