package store

import (
	"time"

	"github.com/perdure/perdure"
)

// Partial is a checkpoint: the text so far of a message that streams (TN19).
type Partial struct {
	Session perdure.SessionID
	Message perdure.MessageID
	Text    string
	At      time.Time // when it was put, by the store's clock
}

// PartialReader reads checkpoints.
type PartialReader interface {
	// Partial returns the checkpoint of a message. NotFound: there is none, or it is another session's.
	Partial(session perdure.SessionID, message perdure.MessageID) (Partial, error)
}

// PartialWriter writes checkpoints. They are keyed by message, so that the end of one hides no other.
type PartialWriter interface {
	// PutPartial adds a checkpoint, or overwrites the one of its message. At is given by the store.
	PutPartial(p Partial) error
	// DropPartial removes the checkpoint of a message. One that is not there is no error.
	DropPartial(session perdure.SessionID, message perdure.MessageID) error
}
