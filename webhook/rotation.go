package webhook

import "time"

// Rotation is a request to rotate a secret, which may be repeated. The zero value is a request
// without an id.
type Rotation struct {
	Request  string    // idempotency key of the request; may be empty
	At       time.Time // when it was first received
	Repeated bool      // it was received before and may have been carried out
}
