package engine

import "github.com/perdure/perdure"

// Sent is what a session has recorded of a message.
type Sent struct {
	ID  perdure.MessageID `json:"message_id"`
	Seq int64             `json:"seq"` // of its event; for a repetition, of the first one's
	// Hold is why the message waits for a person to act; nil: it is processed, or not known.
	Hold *Hold `json:"hold,omitempty"`
}
