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

// Leases is remote state that somebody must clean up (the port "Leased resource store"; RS2 to RS7).
type Leases interface {
	// Lease records a resource, or refreshes the lease of the one that it is: the same provider, type and external id.
	// It is active again, and a cleanup that was under way has lost it. Session and owner stay those that made it, until
	// it was released; one that another task leases too is held by no task alone any more. It is also an entry of
	// [Resources], under the lease's id (RS3). Invalid: what is wrong with o. NotFound: no such task in this session.
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
type LeaseStatus = perdure.LeaseStatus

// The statuses of a lease.
const (
	LeaseActive        = perdure.LeaseActive
	LeaseCleaning      = perdure.LeaseCleaning // a cleaner has claimed it
	LeaseCleanupFailed = perdure.LeaseFailed
	LeaseReleased      = perdure.LeaseReleased
)

// Lease is a leased resource.
type Lease = perdure.Lease

// LeaseCleaner takes down what the leases of one provider stand for, once they have expired (RS5). It is the host's.
type LeaseCleaner interface {
	// Clean takes a resource down; one that is gone already is no error. It may run twice for the same resource, so the
	// second time must do no harm, and it returns soon after ctx has ended. token is that of whose connection made the
	// resource (RS7), looked up when it is asked for. After an error it is tried again later, with longer and longer
	// pauses; the error's text is kept without secrets. Safe for concurrent use.
	Clean(ctx context.Context, l Lease, token func(context.Context) (string, error)) error
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
