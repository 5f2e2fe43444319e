package store

import (
	"time"

	"github.com/perdure/perdure"
)

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
