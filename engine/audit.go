package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Audits shows the audit log of an org: who did what is to be answered for (S26).
type Audits interface {
	// Audit lists the entries that a query asks for, in the order in which they were written. None is ever changed or removed.
	// Invalid: a limit below 0. Storage: an entry is not what was written.
	Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
}

// AuditQuery says which entries; its zero value asks for all.
type AuditQuery struct {
	After   int64             // the seq that they come after
	Limit   int               // how many at most; 0: all
	Action  string            // token.created; token.* is all that begin with token.
	Actor   string            // as the entry has it
	Subject string            // likewise
	Session perdure.SessionID // only of this one
}

// AuditEntry is one deed. It holds neither secrets nor anybody's own words: those stand in the event that it names.
type AuditEntry struct {
	Org     string            `json:"org"`
	Seq     int64             `json:"seq" doc:"From 1, without a gap in an org."`
	At      time.Time         `json:"at"`
	Actor   string            `json:"actor" doc:"A token and its user, the tool that did it, or user for whoever holds the data directory."`
	Action  string            `json:"action" example:"token.created"`
	Subject string            `json:"subject" doc:"What it was done to: an id, a name, a host."`
	Session perdure.SessionID `json:"session_id,omitempty"`
	Event   perdure.EventID   `json:"event_id,omitempty" doc:"Of the session's journal; absent where the entry is all that there is."`
	Digest  string            `json:"digest,omitempty" doc:"SHA-256 of that event as it is stored."`
	Detail  map[string]string `json:"detail,omitempty"`
	Prev    string            `json:"prev,omitempty" doc:"The hash of the entry before; absent in the first."`
	Hash    string            `json:"hash" doc:"SHA-256 of the canonical JSON of all the rest."`
}
