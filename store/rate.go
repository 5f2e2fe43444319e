package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// The window of the rate limit (RL1). What was counted in a second goes when all of that second is a window ago, so that no
// window of a minute, wherever it begins, holds more than the limit.
const (
	RateWindow = time.Minute
	rateBucket = time.Second
)

// RateSpan returns the buckets that the window up to a moment touches: the first and the last.
func RateSpan(now time.Time) (first, last int64) {
	last = now.UnixMicro() / rateBucket.Microseconds()
	return last - int64(RateWindow/rateBucket), last
}

// CheckRate says whether an organisation's calls may be counted. Invalid: what is wrong.
func CheckRate(org string, limit int) error {
	if len(org) > MaxPaymentBytes || limit < 1 {
		return fmt.Errorf("%w rate limit of %d for an organisation of %d bytes", perdure.Invalid, limit, len(org))
	}
	return nil
}

// RateReader reads how often an organisation's tools went out.
type RateReader interface {
	// OutboundCalls counts the calls in the window up to now.
	OutboundCalls(org string) (int, error)
}

// RateWriter counts the calls of an organisation's tools that go out.
type RateWriter interface {
	// CountOutbound counts one call more and answers true, unless that would be more than limit in the window up to now, by
	// the store's clock. Of many that ask at once no more than limit get a yes. A clock that was set back forgets what was
	// counted later. The empty org is one, too. Invalid: the limit is under 1, or the org over 256 bytes.
	CountOutbound(org string, limit int) (bool, error)
}
