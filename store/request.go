package store

import (
	"time"

	"github.com/perdure/perdure"
)

// MaxRequestKeyBytes limits a scope and a key, each. Both together are one index entry, which
// Postgres limits to 2,704 bytes.
const MaxRequestKeyBytes = 1 << 10

// Request is a request with an idempotency key, and its answer once there is one. Scope, Key and
// Hash are bytes: they are not normalised in any way.
type Request struct {
	Scope  string         // the caller and the operation; a key is valid within its scope only
	Key    string         // chosen by the client
	Hash   string         // of the request, to detect a different request under the same key
	Seed   perdure.Secret // the ids that the request creates derive from it
	At     time.Time      // when it started, by the store's clock
	Answer Answer         // the zero value: none yet
}

// Answer is the response to a request.
type Answer struct {
	Status      int // HTTP status; 0: there is no answer
	ContentType string
	Location    string
	Body        []byte // nil and empty are the same, and read back as nil
}

// RequestReader reads requests.
type RequestReader interface {
	// Get returns the row with its answer. NotFound: it was never started, or was pruned.
	Get(scope, key string) (Request, error)
}

// RequestWriter writes requests. There is one row for each scope and key.
type RequestWriter interface {
	// Begin adds a row of Scope, Key, Hash and Seed, before the request is carried out. The
	// store sets At, and there is no answer yet. Conflict: the row exists; it is not changed.
	// Invalid: Scope or Key has more than MaxRequestKeyBytes.
	Begin(r Request) error
	// End records the answer. The first answer counts; later calls do nothing. NotFound: the
	// request was never started, or was pruned. Invalid: the answer has no status above 0.
	End(scope, key string, answer Answer) error
	// Prune removes up to limit requests that started before a time, the oldest first,
	// answered or not, and returns how many it removed; limit 0 means all. The time is truncated to
	// microseconds. A request that started at that time stays.
	Prune(before time.Time, limit int) (int, error)
}

// Bulk is an operation on many objects, with its progress. Org and ID identify it. Request, Plan
// and Progress are bytes that the store does not read; nil and empty are the same, and read back as
// nil.
type Bulk struct {
	Org      string
	ID       perdure.BulkID
	Worker   perdure.WorkerID // carries it out; the last one, once it has ended
	BeganAt  time.Time        // by the store's clock
	EndedAt  time.Time        // by the store's clock; zero: it has not ended
	Request  []byte           // to recognise the same request again
	Plan     []byte           // what is to be done; dropped when it ends
	Progress []byte
}

// BulkReader reads bulks.
type BulkReader interface {
	// List returns the bulks with an id, at most one of each org, in the order of the orgs. Their
	// Plan is nil.
	List(id perdure.BulkID) ([]Bulk, error)
	// Running returns the bulks that have not ended, with their Plan, the oldest first.
	Running() ([]Bulk, error)
}

// BulkWriter writes bulks.
type BulkWriter interface {
	// Create adds a bulk, running or, if ended, ended now. The store sets BeganAt and EndedAt.
	// Conflict: the org has a bulk with this id.
	Create(b Bulk, ended bool) error
	// Save records the progress of a bulk that b.Worker carries out. ended ends it: the store sets
	// EndedAt and drops the Plan. Lost: another worker carries it out, or it has ended. NotFound:
	// there is no such bulk.
	Save(b Bulk, ended bool) error
	// Take makes next the worker of a bulk that b.Worker carried out. Lost and NotFound are as for
	// Save.
	Take(b Bulk, next perdure.WorkerID) error
	// Prune removes up to limit bulks that ended before a time, the oldest first, and returns how
	// many it removed; limit 0 means all. The time is truncated to microseconds. A bulk that has
	// not ended stays.
	Prune(before time.Time, limit int) (int, error)
}
