package store

import (
	"time"

	"github.com/perdure/perdure"
)

// The size of a Page.
const (
	PageEvents = 32
	PageBytes  = 1 << 20 // of events as stored; the event that reaches it is the last of its page
)

// Page is a limit of [JournalReader.Events]: as many events as one reader may hold in memory while
// it processes them slowly. A number of events alone would not bound memory, because events have
// any size.
const Page = -1

// JournalReader reads journals.
type JournalReader interface {
	// Events returns up to limit events of a session after seq, in order; limit 0 means all. With
	// Page as the limit, the result ends with the event that makes it PageEvents long or reaches
	// PageBytes. It contains at least one event if there is one, so only an empty result is the end
	// of the journal. An unknown session has no events.
	Events(session perdure.SessionID, after int64, limit int) ([]perdure.Event, error)
}

// JournalWriter writes journals.
type JournalWriter interface {
	// Append adds events to a session's journal and advances its last sequence number. It assigns
	// Session and Seq and truncates At to UTC microseconds, in place. It is not conditional on the
	// previous last sequence number. The caller chooses the events' ids. NotFound: no such session.
	// Conflict: an event id exists in the store. Invalid: an event has no fact. After an error none
	// of the events is in the journal, even if the transaction continues and commits.
	Append(session perdure.SessionID, events []perdure.Event) error
}

// Partial is a checkpoint: the stored text of a streaming message.
type Partial struct {
	Session perdure.SessionID
	Message perdure.MessageID
	Text    string
	At      time.Time // when it was stored, by the store's clock
}

// PartialReader reads checkpoints.
type PartialReader interface {
	// Partial returns the checkpoint of a message. NotFound: there is none in this session.
	Partial(session perdure.SessionID, message perdure.MessageID) (Partial, error)
}

// PartialWriter writes checkpoints. They are keyed by message, so that the end of one message does
// not hide another.
type PartialWriter interface {
	// PutPartial adds a checkpoint, or overwrites the one of its message. The store sets At.
	PutPartial(p Partial) error
	// DropPartial removes the checkpoint of a message. A missing checkpoint is not an error.
	DropPartial(session perdure.SessionID, message perdure.MessageID) error
}
