package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// Agents manages the agents that sessions can be created from. An agent comes from the program's
// configuration or from the store. Only agents in the store can be written here; the configured
// ones are changed in the configuration.
//
// An agent is named by its id or, until it is deleted, by its name. Every method that names an
// agent returns NotFound if it does not exist, and Conflict if several stored agents have the name
// and an id is needed to tell them apart.
type Agents interface {
	// List lists the configured agents by name, then the stored ones by creation time, including
	// archived and deleted ones.
	List(ctx context.Context) ([]AgentEntry, error)
	// Get returns an agent.
	Get(ctx context.Context, id string) (AgentEntry, error)
	// Effective resolves an agent as a session created now would have it: merged with its
	// chain of harnesses and with the contributions of its capabilities. Conflict: the agent or a
	// harness of its chain is archived or deleted. NotFound also means that a model, tool or
	// capability of the agent does not exist.
	Effective(ctx context.Context, id string) (EffectiveAgent, error)
	// Versions returns every stored version of an agent, newest first; limit 0 means all. A
	// configured agent has none.
	Versions(ctx context.Context, id string, limit int) ([]AgentEntry, error)
	// Put adds an agent to the store or replaces a stored one entirely. Existing sessions of
	// the agent keep their configuration (N9).
	//
	// Conflict: the program is configured with an agent of this name, or the stored version is not
	// w.Version. Invalid: the overlay, the name or the harness is not acceptable; the error says
	// why. NotFound: w names a version or an id that does not exist.
	Put(ctx context.Context, w AgentWrite) (AgentEntry, error)
	// Delete marks a stored agent as deleted. Its name becomes free, its id stays reserved,
	// and turns of its sessions stop at their next step (N11). version is the version that the
	// caller has read; 0 means any. Conflict: the stored version differs, or the agent is
	// configured. NotFound also means that it is already deleted.
	Delete(ctx context.Context, id string, version int64) error
}

// AgentSessionRequest describes the session to create from an agent.
type AgentSessionRequest struct {
	ID       perdure.SessionID // empty: a new id
	Agent    string            // the agent's id or name
	Title    string            // empty: the agent's
	Labels   perdure.Labels    // nil: the agent's
	Model    string            // replaces the agent's model; empty: the agent's
	Metadata map[string]string // added to the agent's
}

// AgentWrite is the complete new state of an agent.
type AgentWrite struct {
	// Name has 1 to 64 letters, digits and . _ -, and starts with a letter or digit. The id of a
	// stored agent is accepted too; that agent keeps its name.
	Name    string
	ID      perdure.AgentID   // for a new agent, if the caller chooses ids; empty: the engine creates one
	Version int64             // the version that the caller has read; 0: no agent has this name yet
	Harness perdure.HarnessID // the last harness of its chain; empty: none
	Overlay agent.Overlay     // the agent's own settings, without secrets
}

// CheckAgentName returns an Invalid error if name is not allowed for a new agent or harness. Names
// that look like an agent or harness id are refused.
func CheckAgentName(name string) error {
	_, err := perdure.ParseID[perdure.AgentID](name)
	_, other := perdure.ParseID[perdure.HarnessID](name)
	if err == nil || other == nil || !agentName.MatchString(name) {
		return fmt.Errorf("%w name %.80q: a name has 1 to 64 letters, digits and . _ -, "+
			"starts with a letter or digit, and does not look like an id", perdure.Invalid, name)
	}
	return nil
}

// agentName restricts names to what is safe in a path, on a command line and in a log.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// The sources of an agent.
const (
	AgentFromConfig = "given" // the program's configuration; changing it needs a restart
	AgentFromStore  = "kept"  // the store
)

// AgentEntry is an agent as callers see it.
type AgentEntry struct {
	ID          string            `json:"id"` // the name, for a configured agent
	Name        string            `json:"name"`
	Source      string            `json:"source" enum:"given,kept"`
	Description string            `json:"description,omitempty"`
	Harness     perdure.HarnessID `json:"harness_id,omitempty"` // the last harness of its chain; empty: none
	Overlay     json.RawMessage   `json:"overlay,omitempty"`    // the own settings of a stored agent
	Status      string            `json:"status" enum:"active,archived,deleted"`
	Version     int64             `json:"version"`      // counts the writes from 1; 0 for a configured agent
	By          string            `json:"by,omitempty"` // the author of this version; empty: unknown
	CreatedAt   time.Time         `json:"created_at,omitzero"`
	UpdatedAt   time.Time         `json:"updated_at,omitzero"`
}

// EffectiveAgent is the resolved configuration of an agent.
type EffectiveAgent struct {
	Agent AgentSettings `json:"agent"`
	Files []string      `json:"initial_files"` // the paths of the files that a new session starts with
}

// AgentSettings is an agent in the form that session.created records.
type AgentSettings perdure.Agent
