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

// Agents shows the agents that sessions can be made of: those that the program was given, and those that are kept in the store with
// their harnesses. Those that are kept are written here, too; whoever gave the others writes them. An agent is named by its id,
// and while it is not deleted by its name. NotFound, where one is named: there is none. Conflict: several that are kept have
// the name, and their ids tell them apart.
type Agents interface {
	// Agents lists those of the program by name, then those that are kept in the order of their making, also archived and deleted ones.
	Agents(ctx context.Context) ([]AgentEntry, error)
	// Agent returns an agent.
	Agent(ctx context.Context, id string) (AgentEntry, error)
	// EffectiveAgent is an agent as a session that begins now would have it: folded with its chain of harnesses, and with what its
	// capabilities bring. Conflict: it or a harness of its chain is archived or deleted. NotFound, too: a model, a tool or a
	// capability that it names is not there.
	EffectiveAgent(ctx context.Context, id string) (EffectiveAgent, error)
	// AgentVersions returns an agent as each write left it, the newest first; limit 0 means all. One that was given has none.
	AgentVersions(ctx context.Context, id string, limit int) ([]AgentEntry, error)
	// PutAgent adds an agent, or replaces one that is kept: nothing of what it was stays. Sessions that were made of it stay as
	// they are (N9). Conflict: the program was given an agent of this name, or it has another version than the one that was
	// read. Invalid: what is wrong with it, its name, or the harness that it stands on. NotFound: a version was read, or an id
	// is named, and there is none.
	PutAgent(ctx context.Context, w AgentWrite) (AgentEntry, error)
	// DeleteAgent makes a tombstone of an agent that is kept: its name is free, its id stays, and turns of the sessions that
	// were made of it stop at their next step (N11). version is the one that was read; 0: any. Conflict: it has another one, or
	// the program was given it. NotFound, too: it is deleted.
	DeleteAgent(ctx context.Context, id string, version int64) error
}

// AgentStarts starts sessions of agents that are there.
type AgentStarts interface {
	// StartOf starts a session of an agent that is kept or was given. The same order again under one id is one session,
	// whatever became of the agent; another one is Conflict (N5). NotFound: no such agent, or a model, a tool or a capability
	// that it names is not there. Conflict, too: it or a harness of its chain is archived or deleted.
	StartOf(ctx context.Context, o AgentOrder) (Session, error)
}

// AgentOrder asks for a session of an agent.
type AgentOrder struct {
	ID       perdure.SessionID // empty: a new one
	Agent    string            // its id or its name
	Title    string            // empty: the agent's
	Labels   perdure.Labels    // nil: the agent's
	Model    string            // the one that is asked instead of the agent's; empty: the agent's
	Metadata map[string]string // beside the agent's, by key
}

// AgentWrite says what an agent is to be, whole.
type AgentWrite struct {
	Name    string            // of 1 to 64 letters, digits and . _ -, the first one a letter or a digit; or the id of one that is kept, which keeps its name
	ID      perdure.AgentID   // of one that is new, for callers that mint them; empty: the engine makes it
	Version int64             // the one that was read; 0: there is none of this name
	Harness perdure.HarnessID // the leaf of its chain; empty: it stands alone
	Overlay agent.Overlay     // what it says itself. It holds no secrets
}

// CheckAgentName returns what is wrong with a name for an agent or a harness that is new. It is Invalid. What looks like the id of one is none.
func CheckAgentName(name string) error {
	_, err := perdure.ParseID[perdure.AgentID](name)
	if _, other := perdure.ParseID[perdure.HarnessID](name); err == nil || other == nil || !agentName.MatchString(name) {
		return fmt.Errorf("%w name %.80q: 1 to 64 letters, digits and . _ -, of which the first is a letter or a digit; an id is none", perdure.Invalid, name)
	}
	return nil
}

// agentName is what names an agent in a path, on a command line and in a log.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

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
	Version     int64             `json:"version"`      // counts the writes, from 1; of one that was given: 0
	By          string            `json:"by,omitempty"` // who wrote this version; empty: nobody said
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
