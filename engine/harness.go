package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// Harnesses keeps what agents stand on: layers that many of them share, each over the one of its parent. A harness is named by its
// id, and while it is not deleted by its name. NotFound, where one is named: there is none. Conflict: several have the name, and
// their ids tell them apart.
type Harnesses interface {
	// Harnesses lists harnesses in the order of their making, also archived and deleted ones.
	Harnesses(ctx context.Context) ([]HarnessEntry, error)
	// Harness returns a harness.
	Harness(ctx context.Context, id string) (HarnessEntry, error)
	// HarnessVersions returns a harness as each write left it, the newest first; limit 0 means all.
	HarnessVersions(ctx context.Context, id string, limit int) ([]HarnessEntry, error)
	// PutHarness adds a harness, or replaces one: nothing of what it was stays. Sessions that began stay as they are (N9). Conflict:
	// it has another version than the one that was read. Invalid: what is wrong with it, its name, or its parent, which is not
	// there, stands on it, or is too deep. NotFound: a version was read, or an id is named, and there is none.
	PutHarness(ctx context.Context, w HarnessWrite) (HarnessEntry, error)
	// DeleteHarness makes a tombstone of a harness: its name is free, its id stays. version is the one that was read; 0: any.
	// Conflict: it has another one, or an agent or a harness that is not deleted stands on it. NotFound, too: it is deleted.
	DeleteHarness(ctx context.Context, id string, version int64) error
}

// HarnessWrite says what a harness is to be, whole.
type HarnessWrite struct {
	Name    string            // as an agent's; or the id of one that is there, which keeps its name
	ID      perdure.HarnessID // of one that is new, for callers that mint them; empty: the engine makes it
	Version int64             // the one that was read; 0: there is none of this name
	Parent  perdure.HarnessID // what it stands on itself; empty: it is a root
	Overlay agent.Overlay     // what it says. It holds no secrets
}

// HarnessEntry is a harness as callers see it.
type HarnessEntry struct {
	ID        perdure.HarnessID `json:"id"`
	Name      string            `json:"name"`
	Parent    perdure.HarnessID `json:"parent_id,omitempty"` // empty: it is a root
	Overlay   json.RawMessage   `json:"overlay"`
	Status    string            `json:"status" enum:"active,archived,deleted"`
	Version   int64             `json:"version"`      // counts the writes, from 1
	By        string            `json:"by,omitempty"` // who wrote this version; empty: nobody said
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}
