package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// Platform administers the runtime (the port "Platform store"). The host opens it. There are no
// principals yet, so a tool with the port may do everything that it offers. Reading an unknown id
// returns nothing and no error; writing to it is NotFound.
type Platform interface {
	PlatformHarnesses
	PlatformAgents
	PlatformSessions
	PlatformMessaging
	PlatformCatalogue
}

// PlatformHarnesses manages harnesses.
type PlatformHarnesses interface {
	// Harnesses lists harnesses in the order of their creation.
	Harnesses(ctx context.Context, filter agent.StatusFilter) ([]agent.Harness, error)
	// Harness returns a harness.
	Harness(ctx context.Context, id perdure.HarnessID) (h agent.Harness, found bool, err error)
	// CreateHarness stores a harness; an empty id gets a new one. Repeating it with the same id and
	// content returns the stored harness. Conflict: the id has other content. Invalid: as
	// Harness.Check says.
	CreateHarness(ctx context.Context, h agent.Harness) (agent.Harness, error)
	// UpdateHarness replaces the version that was read. Conflict: another version is stored.
	// NotFound: it does not exist.
	UpdateHarness(ctx context.Context, h agent.Harness) (agent.Harness, error)
	// DeleteHarness deletes a harness and leaves a tombstone. Turns that need it stop at their next
	// step. NotFound: it does not exist or was already deleted.
	DeleteHarness(ctx context.Context, id perdure.HarnessID) error
	// CopyHarness stores a copy of a harness under another name.
	CopyHarness(ctx context.Context, id perdure.HarnessID, name string) (agent.Harness, error)
}

// PlatformAgents manages agents, in the same way as [PlatformHarnesses] does harnesses.
type PlatformAgents interface {
	// Agents lists agents in the order of their creation.
	Agents(ctx context.Context, filter agent.StatusFilter) ([]agent.Agent, error)
	// Agent returns an agent.
	Agent(ctx context.Context, id perdure.AgentID) (a agent.Agent, found bool, err error)
	// CreateAgent stores an agent; an empty id gets a new one.
	CreateAgent(ctx context.Context, a agent.Agent) (agent.Agent, error)
	// UpdateAgent replaces the version that was read. Existing sessions keep their configuration.
	UpdateAgent(ctx context.Context, a agent.Agent) (agent.Agent, error)
	// DeleteAgent deletes an agent and leaves a tombstone.
	DeleteAgent(ctx context.Context, id perdure.AgentID) error
}

// PlatformSessions manages sessions. All sessions are visible.
type PlatformSessions interface {
	// Sessions lists sessions, newest first; limit 0 means all.
	Sessions(ctx context.Context, limit int) ([]PlatformSession, error)
	// Session returns a session.
	Session(ctx context.Context, id perdure.SessionID) (s PlatformSession, found bool, err error)
	// CreateSession starts a session. NotFound: the agent, the harness, the blueprint, a tool, a
	// capability or the model does not exist. Conflict: the agent or the harness is archived or
	// deleted, or another session has the id.
	CreateSession(ctx context.Context, o SessionRequest) (PlatformSession, error)
	// DeleteSession deletes a session together with those of its subagents. NotFound: it does not
	// exist. Conflict: it is running.
	DeleteSession(ctx context.Context, id perdure.SessionID) error
}

// PlatformMessaging communicates with sessions.
type PlatformMessaging interface {
	// Send sends a message to a session; it is durable when Send returns.
	Send(ctx context.Context, id perdure.SessionID, text string) (perdure.MessageID, error)
	// Messages returns up to limit messages of a session after a sequence number; none for an
	// unknown session.
	Messages(ctx context.Context, id perdure.SessionID, after int64, limit int) (MessagePage, error)
	// WaitIdle returns when the session is at rest, or after limit, which is at most nine minutes.
	WaitIdle(ctx context.Context, id perdure.SessionID, limit time.Duration) (WaitOutcome, error)
	// ContextOf reports what fills a session's context window.
	ContextOf(ctx context.Context, id perdure.SessionID) (ContextReport, error)
}

// PlatformCatalogue lists what agents can be made of. It is read-only.
type PlatformCatalogue interface {
	// Capabilities lists those whose id, name or description contains a text, ignoring case; empty:
	// all.
	Capabilities(ctx context.Context, search string) ([]CapabilityEntry, error)
	// Blueprints lists the blueprints.
	Blueprints(ctx context.Context) ([]BlueprintEntry, error)
	// BaseURL is the address of the runtime for people; empty: none.
	BaseURL() string
}

// WaitOutcome is the outcome of a wait for a session.
type WaitOutcome string

// The outcomes of a wait.
const (
	WaitIdle    WaitOutcome = "idle"
	WaitError   WaitOutcome = "error"   // it is at rest, and its last turn failed
	WaitTimeout WaitOutcome = "timeout" // it is still running, or waits for a person
)

// PlatformSession is a session in the form of this port.
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

// SessionRequest is the request for a session. Agent, Harness and Blueprint may all be empty; then
// only Overlay applies.
type SessionRequest struct {
	ID        perdure.SessionID // empty: a new one
	Agent     perdure.AgentID
	Harness   perdure.HarnessID // empty: the agent's. With an agent that has a harness: one that inherits from it
	Blueprint string            // used instead of an agent
	Config    json.RawMessage   // for the blueprint's schema; empty: {}
	Title     string
	Locale    string        // BCP 47; empty: the agent's
	Overlay   agent.Overlay // the last layer of the configuration
}

// Blueprint is a named preset for an agent that a configuration completes.
type Blueprint struct {
	Name        string // unique in the engine
	Description string
	Schema      json.RawMessage // JSON Schema of the configuration; empty: there is none
	// Make returns the overlay for a valid configuration. It is pure and safe for concurrent use.
	Make func(config json.RawMessage) (agent.Overlay, error)
}

// BlueprintEntry is a blueprint in a list.
type BlueprintEntry struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"config_schema,omitempty"`
}

// CapabilityEntry is a capability in a list.
type CapabilityEntry struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tools       []string `json:"tools"`
	Automatic   bool     `json:"automatic"` // it can activate itself
}
