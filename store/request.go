package store

import (
	"time"

	"github.com/perdure/perdure"
)

// MaxRequestKeyBytes bounds a scope, and likewise a key: both together are one entry of an index, which
// Postgres does not let grow beyond 2,704 bytes.
const MaxRequestKeyBytes = 1 << 10

// Request is a request that came with an idempotency key, and its answer once there is one (H4). Scope, Key
// and Hash are bytes: nothing about them is folded, trimmed or normalised.
type Request struct {
	Scope  string         // who asked, and what for; a key means something within its scope only
	Key    string         // the client's
	Hash   string         // of what was asked, so that another request under the same key is noticed
	Seed   perdure.Secret // the ids that the request makes are derived from it
	At     time.Time      // when it was begun, by the store's clock
	Answer Answer         // the zero value: there is none yet
}

// Answer is what a request was answered with.
type Answer struct {
	Status      int // of HTTP; 0: there is no answer
	ContentType string
	Location    string
	Body        []byte // one of no bytes is none, and read back as nil
}

// RequestReader reads requests.
type RequestReader interface {
	// Request returns the row with its answer. NotFound: it was never begun, or it was pruned.
	Request(scope, key string) (Request, error)
}

// RequestWriter writes requests. Of each scope and key there is one row.
type RequestWriter interface {
	// BeginRequest adds a row of Scope, Key, Hash and Seed, before the request is carried out. At is the
	// store's clock and there is no answer yet, whatever r says. Conflict: it exists, and was left as it is.
	// Invalid: Scope or Key has more than MaxRequestKeyBytes.
	BeginRequest(r Request) error
	// EndRequest records the answer. The first one stands: ending again does nothing, with whatever answer.
	// NotFound: it was never begun, or it was pruned. Invalid: the answer has no status above 0.
	EndRequest(scope, key string, answer Answer) error
	// PruneRequests forgets up to limit requests that were begun before a moment, the oldest first, whether
	// they were answered or not, and returns how many there were; limit 0 means all of them. The moment is
	// cut to microseconds. One that was begun at the moment or later stays.
	PruneRequests(before time.Time, limit int) (int, error)
}
