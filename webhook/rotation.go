package webhook

import "time"

// Rotation is the request by which a secret is rotated, which may come more than once. The zero value is one that comes once.
type Rotation struct {
	Request string    // by which it is known again; empty: it is not
	At      time.Time // when it came first
	Again   bool      // it came before, and may have been carried out
}
