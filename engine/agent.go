package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Agents shows the agents that sessions can be made of: those that the program was given, and those that are kept in the store with
// their harnesses. They are read here; whoever gave or keeps them writes them. NotFound, where one is named: there is none.
type Agents interface {
	// Agents lists those of the program by name, then those that are kept in the order of their making, also archived and deleted ones.
	Agents(ctx context.Context) ([]AgentEntry, error)
	// Agent returns an agent by its id, or by its name where the program was given it.
	Agent(ctx context.Context, id string) (AgentEntry, error)
	// EffectiveAgent is an agent as a session that begins now would have it: folded with its chain of harnesses, and with what its
	// capabilities bring. Conflict: it or a harness of its chain is archived or deleted. NotFound, too: a model, a tool or a
	// capability that it names is not there.
	EffectiveAgent(ctx context.Context, id string) (EffectiveAgent, error)
}

// Where an agent comes from.
const (
	AgentGiven = "given" // to the program, which is started anew when it changes
	AgentKept  = "kept"  // in the store
)

// AgentEntry is an agent as callers see it.
type AgentEntry struct {
	ID          string            `json:"id"` // of one that was given: its name
	Name        string            `json:"name"`
	Source      string            `json:"source" enum:"given,kept"`
	Description string            `json:"description,omitempty"`
	Harness     perdure.HarnessID `json:"harness_id,omitempty"` // the leaf of its chain; empty: it stands alone
	Overlay     json.RawMessage   `json:"overlay,omitempty"`    // what one that is kept says itself
	Status      string            `json:"status" enum:"active,archived,deleted"`
	Version     int64             `json:"version"` // counts the writes, from 1; of one that was given: 0
	CreatedAt   time.Time         `json:"created_at,omitzero"`
	UpdatedAt   time.Time         `json:"updated_at,omitzero"`
}

// EffectiveAgent is what an agent comes to.
type EffectiveAgent struct {
	Agent AgentSettings `json:"agent"`
	Files []string      `json:"initial_files"` // the paths that a session begins with
}

// AgentSettings are those of a session's agent.
type AgentSettings perdure.Agent
