package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Audit reads the audit log of an org: accountable actions and their actors (S26).
type Audit interface {
	// List lists the entries that match q, in the order of their sequence numbers, or in the
	// reverse order with q.Newest. Entries are never changed or removed. Invalid: a number of q is
	// negative. Storage: a stored entry does not match its hash.
	List(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
}

// AuditQuery selects entries. The zero value selects all.
type AuditQuery struct {
	After   int64             // only entries with a larger seq
	Before  int64             // only entries with a smaller seq; 0: any
	Newest  bool              // the newest entry first
	Limit   int               // the maximum number; 0: no limit
	Action  string            // for example token.created; token.* matches every action that starts with "token."
	Actor   string            // exact match
	Subject string            // exact match
	Session perdure.SessionID // exact match
}

// AuditEntry is one audited action. It contains no secrets and no text written by a user; such text
// is in the event that it names.
type AuditEntry struct {
	Org     string            `json:"org"`
	Seq     int64             `json:"seq" doc:"From 1, without gaps within an org."`
	At      time.Time         `json:"at"`
	Actor   string            `json:"actor" doc:"A token and its user, the tool that acted, or \"user\" for a process with access to the data directory."`
	Action  string            `json:"action" example:"token.created"`
	Subject string            `json:"subject" doc:"The object of the action: an id, a name or a host."`
	Session perdure.SessionID `json:"session_id,omitempty"`
	Event   perdure.EventID   `json:"event_id,omitempty" doc:"The related event in the session's journal; absent if there is none."`
	Digest  string            `json:"digest,omitempty" doc:"SHA-256 of that event as stored."`
	Detail  map[string]string `json:"detail,omitempty"`
	Prev    string            `json:"prev,omitempty" doc:"The hash of the previous entry; absent in the first."`
	Hash    string            `json:"hash" doc:"SHA-256 of the canonical JSON of the other fields."`
}
