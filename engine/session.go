package engine

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// SessionCreation creates sessions.
type SessionCreation interface {
	// Create creates a session for an agent. Invalid: a limit or a rule of the agent is wrong.
	Create(ctx context.Context, agent perdure.Agent) (Session, error)
	// CreateAs is Sessions.Create with an id chosen by the caller. The same id with the same agent
	// is the same session; with another agent it is Conflict. Invalid: id is not a session id (N5).
	CreateAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (Session, error)
	// Ensure returns the session that has a key of the caller, and creates it for an agent if there
	// is none. A program that begins with it continues its session at every start, also after a
	// crash. The key is any text; each org has keys of its own, and the session has the id that
	// perdure.SessionIDForKey returns. Two calls at the same time return the same session.
	//
	// Conflict: the session with the key was created for another agent, because the configuration
	// of a session never changes. To continue it as it is, pass its id to Get; for a new session,
	// use another key. Invalid: the key is empty, too long or not UTF-8, or the agent is not valid.
	Ensure(ctx context.Context, key string, agent perdure.Agent) (Session, error)
	// CreateFromAgent creates a session from a stored or configured agent. The same order under
	// the same session id is the same session, even if the agent has changed since; a different
	// order under that id is Conflict (N5). NotFound: there is no such agent, or a model, tool or
	// capability of it does not exist. Conflict also means that the agent or a harness of its chain
	// is archived or deleted.
	CreateFromAgent(ctx context.Context, o AgentSessionRequest) (Session, error)
}

// SessionHomes lists the homes of a store that several servers share, and moves sessions between
// them. A home is a data directory: the files of sessions outside the store are there, and commands
// that keep running.
type SessionHomes interface {
	// Homes lists the homes that have used the store, by id. With a store that one server has to
	// itself there are none.
	Homes(ctx context.Context) ([]Home, error)
	// MoveHere binds a session and its subagents to the home of this server, which then does their
	// work. Their files at the former home stay there: databases, large images and the files in the
	// workspace are missing here, unless somebody copies them. The audit log records the move.
	// It does nothing if this server reaches the files of the session, or there are none.
	//
	// Conflict: a server that is running works on it. NotFound: no such session. Invalid: the
	// session is a subagent; move its root.
	MoveHere(ctx context.Context, id perdure.SessionID) (Session, error)
}

// Home is a data directory of a server that uses the store.
type Home struct {
	ID      perdure.HomeID `json:"id"`
	Host    string         `json:"host"`    // of its last server
	SeenAt  time.Time      `json:"seen_at"` // the last sign of its last server, or the end of the lease of a running one
	Present bool           `json:"present"` // a server of it is running
	Here    bool           `json:"here"`    // it is the home of the server that answers
	// WaitingSessions and WaitingTasks wait for a server of this home.
	WaitingSessions int `json:"waiting_sessions"`
	WaitingTasks    int `json:"waiting_tasks"`
}

// SessionHome is the home of a session's files.
type SessionHome struct {
	ID   perdure.HomeID `json:"id"`
	Host string         `json:"host"` // of its last server
	Here bool           `json:"here"` // it is the home of the server that answers
	// WaitsSince is when the session began to wait for a server of the home; zero: it does not
	// wait.
	WaitsSince time.Time `json:"waits_since,omitzero"`
}

// MaxSessionKeyBytes limits the key of a session.
const MaxSessionKeyBytes = 1024

// CheckSessionKey returns an Invalid error if a text cannot be the key of a session.
func CheckSessionKey(key string) error {
	if key == "" || len(key) > MaxSessionKeyBytes || !utf8.ValidString(key) {
		return fmt.Errorf("%w session key %.80q: it has %d bytes; give 1 to %d bytes of UTF-8",
			perdure.Invalid, key, len(key), MaxSessionKeyBytes)
	}
	return nil
}

// CheckLimit returns an Invalid error if a limit of a list is negative.
func CheckLimit(limit int) error {
	if limit < 0 {
		return fmt.Errorf("%w limit %d: give a number from 1, or 0 for no limit", perdure.Invalid, limit)
	}
	return nil
}
