package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// Platform is the runtime itself, for tools that administer it (the port "Platform store"; PL1). The host opens it: there are no
// principals yet, so whoever has the port may do all that it offers. Ids that are not known are none, and no error, where
// something is read (MR1); to write to them is NotFound.
type Platform interface {
	PlatformHarnesses
	PlatformAgents
	PlatformSessions
	PlatformTalk
	PlatformCatalogue
}

// PlatformHarnesses keeps harnesses.
type PlatformHarnesses interface {
	// Harnesses lists harnesses in the order of their making.
	Harnesses(ctx context.Context, filter agent.StatusFilter) ([]agent.Harness, error)
	// Harness returns a harness.
	Harness(ctx context.Context, id perdure.HarnessID) (h agent.Harness, found bool, err error)
	// CreateHarness keeps a harness; an empty id is minted. The same id and content again is the harness that is there.
	// Conflict: the id has other content (N5). Invalid: what the harness's Check says.
	CreateHarness(ctx context.Context, h agent.Harness) (agent.Harness, error)
	// UpdateHarness writes over the version that was read. Conflict: it has another one. NotFound: there is none.
	UpdateHarness(ctx context.Context, h agent.Harness) (agent.Harness, error)
	// DeleteHarness makes a tombstone of a harness. Turns that need it stop at their next step (N11). NotFound: there is
	// none, or it is one already.
	DeleteHarness(ctx context.Context, id perdure.HarnessID) error
	// CopyHarness keeps a harness of the same parent and overlay under another name.
	CopyHarness(ctx context.Context, id perdure.HarnessID, name string) (agent.Harness, error)
}

// PlatformAgents keeps agents, as [PlatformHarnesses] does harnesses.
type PlatformAgents interface {
	// Agents lists agents in the order of their making.
	Agents(ctx context.Context, filter agent.StatusFilter) ([]agent.Agent, error)
	// Agent returns an agent.
	Agent(ctx context.Context, id perdure.AgentID) (a agent.Agent, found bool, err error)
	// CreateAgent keeps an agent; an empty id is minted.
	CreateAgent(ctx context.Context, a agent.Agent) (agent.Agent, error)
	// UpdateAgent writes over the version that was read. Sessions that were made of it stay as they are (N9).
	UpdateAgent(ctx context.Context, a agent.Agent) (agent.Agent, error)
	// DeleteAgent makes a tombstone of an agent.
	DeleteAgent(ctx context.Context, id perdure.AgentID) error
}

// PlatformSessions keeps sessions. All of them are in sight.
type PlatformSessions interface {
	// Sessions lists sessions, newest first; limit 0 means all.
	Sessions(ctx context.Context, limit int) ([]PlatformSession, error)
	// Session returns a session.
	Session(ctx context.Context, id perdure.SessionID) (s PlatformSession, found bool, err error)
	// CreateSession starts a session. NotFound: the agent, the harness, the blueprint, a tool, a capability or the model is
	// not there. Conflict: one of the first two is archived or deleted, or the id stands for another session.
	CreateSession(ctx context.Context, o SessionOrder) (PlatformSession, error)
	// DeleteSession removes a session for good, with its subagents'. NotFound: no such session. Conflict: it is at work.
	DeleteSession(ctx context.Context, id perdure.SessionID) error
}

// PlatformTalk speaks in sessions.
type PlatformTalk interface {
	// Send hands a message to a session; it is durable when Send returns.
	Send(ctx context.Context, id perdure.SessionID, text string) (perdure.MessageID, error)
	// Messages returns up to limit messages of a session after a sequence number; of an unknown one there are none.
	Messages(ctx context.Context, id perdure.SessionID, after int64, limit int) (MessagePage, error)
	// WaitIdle returns when the session is at rest, or after a time; at most nine minutes.
	WaitIdle(ctx context.Context, id perdure.SessionID, most time.Duration) (Rest, error)
	// ContextOf says what fills a session's context window.
	ContextOf(ctx context.Context, id perdure.SessionID) (ContextReport, error)
}

// PlatformCatalogue is what agents can be made of. It is read only.
type PlatformCatalogue interface {
	// Capabilities lists those whose id, name or description has a text, whatever the case; empty: all.
	Capabilities(ctx context.Context, search string) ([]CapabilityEntry, error)
	// Blueprints lists the named presets of agents.
	Blueprints(ctx context.Context) ([]BlueprintEntry, error)
	// BaseURL is where people reach the runtime; empty: nowhere.
	BaseURL() string
}

// Rest is how a wait for a session ended.
type Rest string

// The ends of a wait.
const (
	RestIdle    Rest = "idle"
	RestError   Rest = "error"   // at rest, and its last turn failed
	RestTimeout Rest = "timeout" // it is still at work, or waits for a person
)

// PlatformSession is a session as the port shows it.
type PlatformSession struct {
	ID        perdure.SessionID     `json:"id"`
	Title     string                `json:"title"`
	Status    perdure.SessionStatus `json:"status"`
	Agent     perdure.AgentID       `json:"agent_id,omitempty"`
	Harness   perdure.HarnessID     `json:"harness_id,omitempty"`
	Parent    perdure.SessionID     `json:"parent_session_id,omitempty"`
	CreatedAt time.Time             `json:"created_at"`
	UpdatedAt time.Time             `json:"updated_at"`
}

// SessionOrder asks for a session. Agent, Harness and Blueprint may all be empty: then it is what Overlay says alone.
type SessionOrder struct {
	ID        perdure.SessionID // empty: a new one
	Agent     perdure.AgentID
	Harness   perdure.HarnessID // empty: the agent's. With an agent of a harness: one that stands on it
	Blueprint string            // instead of an agent
	Config    json.RawMessage   // of the blueprint, by its schema; empty: {}
	Title     string
	Locale    string        // BCP 47; empty: as the agent says
	Overlay   agent.Overlay // the session's own, the last in the chain
}

// Blueprint is a named preset of an agent, which a configuration completes.
type Blueprint struct {
	Name        string // unique in its engine
	Description string
	Schema      json.RawMessage // JSON Schema of the configuration; empty: it takes none
	// Make returns the overlay for a configuration that the schema allows. It is pure and safe for concurrent use.
	Make func(config json.RawMessage) (agent.Overlay, error)
}

// BlueprintEntry is a blueprint as it is listed.
type BlueprintEntry struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"config_schema,omitempty"`
}

// CapabilityEntry is a capability as it is listed.
type CapabilityEntry struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tools       []string `json:"tools"`
	Automatic   bool     `json:"automatic"` // it may be active without being chosen
}
