package store

import "github.com/perdure/perdure"

// JournalReader reads journals.
type JournalReader interface {
	// Events returns up to limit events of a session after seq, in order; limit 0 means all of them.
	// An unknown session has no events.
	Events(session perdure.SessionID, after int64, limit int) ([]perdure.Event, error)
}

// JournalWriter writes journals.
type JournalWriter interface {
	// Append adds events to a session's journal, assigns their Session and Seq and cuts their At to UTC
	// microseconds, in place, and moves the session's last seq. It does not look at what was last before:
	// nobody's append is conditional on it (O2). NotFound: no such session. The events' ids are the caller's
	// and must be new in the whole store: Conflict. Invalid: an event without a fact. After an error nothing
	// of events is in the journal, even if the transaction goes on and commits.
	Append(session perdure.SessionID, events []perdure.Event) error
}
