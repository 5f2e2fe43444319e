package store

import "github.com/perdure/perdure"

// What a reader of a journal holds at once when it asks for a Page.
const (
	PageEvents = 32
	PageBytes  = 1 << 20 // of events as they are stored; the event that reaches it is the last of its page
)

// Page is a limit of [JournalReader.Events]: as many events as one reader may hold while it does something slow
// with them. Events have any size, so a number of them alone is no bound on memory.
const Page = -1

// JournalReader reads journals.
type JournalReader interface {
	// Events returns up to limit events of a session after seq, in order; limit 0 means all of them. With
	// Page as the limit it ends with the event that makes PageEvents of them or reaches PageBytes: at least
	// one event where there is one, so only an empty answer is the journal's end.
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
