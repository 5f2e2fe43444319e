package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// Harnesses manages harnesses: layers of configuration that many agents inherit, each on top of its
// parent. A harness is named by its id or, until it is deleted, by its name. Every method that
// names a harness returns NotFound if it does not exist, and Conflict if several have the name and
// an id is needed to tell them apart.
type Harnesses interface {
	// List lists harnesses by creation time, including archived and deleted ones.
	List(ctx context.Context) ([]HarnessEntry, error)
	// Get returns a harness.
	Get(ctx context.Context, id string) (HarnessEntry, error)
	// Versions returns every stored version of a harness, newest first; limit 0 means all.
	Versions(ctx context.Context, id string, limit int) ([]HarnessEntry, error)
	// Put adds a harness, or replaces one entirely. Existing sessions keep their
	// configuration (N9). Conflict: the stored version is not w.Version. Invalid: the overlay, the
	// name or the parent is not acceptable; a parent must exist, must not inherit from the harness,
	// and must not be too deep. NotFound: w names a version or an id that does not exist.
	Put(ctx context.Context, w HarnessWrite) (HarnessEntry, error)
	// Delete marks a harness as deleted. Its name becomes free, its id stays reserved.
	// version is the version that the caller has read; 0 means any. Conflict: the stored version
	// differs, or an agent or harness that is not deleted inherits from it. NotFound also means
	// that it is already deleted.
	Delete(ctx context.Context, id string, version int64) error
}

// HarnessWrite is the complete new state of a harness.
type HarnessWrite struct {
	Name    string            // see AgentWrite.Name
	ID      perdure.HarnessID // for a new harness, if the caller chooses ids; empty: the engine creates one
	Version int64             // the version that the caller has read; 0: no harness has this name yet
	Parent  perdure.HarnessID // empty: it is a root
	Overlay agent.Overlay     // its settings, without secrets
}

// HarnessEntry is a harness as callers see it.
type HarnessEntry struct {
	ID        perdure.HarnessID `json:"id"`
	Name      string            `json:"name"`
	Parent    perdure.HarnessID `json:"parent_id,omitempty"` // empty: it is a root
	Overlay   json.RawMessage   `json:"overlay"`
	Status    string            `json:"status" enum:"active,archived,deleted"`
	Version   int64             `json:"version"`      // counts the writes from 1
	By        string            `json:"by,omitempty"` // the author of this version; empty: unknown
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}
