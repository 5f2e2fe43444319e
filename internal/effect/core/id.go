package core

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
)

// NewID returns a new time-ordered identifier.
func NewID[T perdure.ID]() T { return perdure.FormatID[T](uuid.Must(uuid.NewV7())) }

// NewMessageID returns a new random identifier. Clients see message ids, and a UUIDv7 would reveal
// when the message was created.
func NewMessageID() perdure.MessageID { return perdure.FormatID[perdure.MessageID](uuid.New()) }

// NewToken returns a new fencing token for a claim.
func NewToken() perdure.Token {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return perdure.Token(hex.EncodeToString(b[:]))
}

// Stamp gives events ids and, if they have none, a time.
func Stamp(events []perdure.Event, now time.Time) {
	for i := range events {
		if events[i].ID == "" {
			events[i].ID = NewID[perdure.EventID]()
		}
		if events[i].At.IsZero() {
			events[i].At = now
		}
	}
}
