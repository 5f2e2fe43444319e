package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"github.com/perdure/perdure"
)

// The limits of the events that a tool reports.
const (
	MaxEventBytes     = 16 << 10 // of the data of one event, as JSON
	MaxEventsOfCall   = 100      // of one execution of a call
	MaxEventNameBytes = 64
)

// Events records events of the tool's own in the journal of the session (the port "Event emitter").
// Followers and webhooks get them; the model does not.
type Events interface {
	// Emit records an event of the type x.TOOL.NAME, which is durable when Emit returns. name is
	// words of a-z, 0-9, _ and -, joined with dots; data encodes as JSON. Secrets are masked. A
	// call that runs again after a crash emits again.
	//
	// Invalid: the name, or data that cannot be encoded or is larger than MaxEventBytes. Limit: the
	// execution has emitted MaxEventsOfCall events. Lost: the call has ended, or another worker
	// owns it. After any other error the event may or may not be recorded. Safe for concurrent use.
	Emit(ctx context.Context, name string, data any) error
}

// eventName matches the names of events.
var eventName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)
})

// CheckEvent checks an event before it is emitted, and returns its data as JSON. Invalid: see
// [Events].
func CheckEvent(name string, data any) (json.RawMessage, error) {
	if len(name) > MaxEventNameBytes || !eventName().MatchString(name) {
		return nil, fmt.Errorf("%w name of an event %.80q: use words of a-z, 0-9, _ and -, joined with dots, of at most "+
			"%d bytes", perdure.Invalid, name, MaxEventNameBytes)
	}
	body, err := encode(data)
	if err != nil {
		return nil, fmt.Errorf("%w data of the event %s: %w", perdure.Invalid, name, err)
	}
	if len(body) > MaxEventBytes {
		return nil, fmt.Errorf("%w data of the event %s: they have %d bytes, but at most %d are allowed; put the rest "+
			"into a file", perdure.Invalid, name, len(body), MaxEventBytes)
	}
	return body, nil
}
