package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// The window of the rate limit. Calls are counted in buckets of one second. A bucket expires when
// its end is a window ago, so that no window of a minute, wherever it starts, contains more than
// the limit.
const (
	RateWindow = time.Minute
	rateBucket = time.Second
)

// RateSpan returns the first and the last bucket of the window that ends at a time.
func RateSpan(now time.Time) (first, last int64) {
	last = now.UnixMicro() / rateBucket.Microseconds()
	return last - int64(RateWindow/rateBucket), last
}

// CheckRate checks the arguments of Rates.CountOutbound. Invalid: the error says what is wrong.
func CheckRate(org string, limit int) error {
	if len(org) > MaxPaymentBytes || limit < 1 {
		return fmt.Errorf("%w rate limit of %d for an organisation of %d bytes", perdure.Invalid, limit, len(org))
	}
	return nil
}

// RateReader reads how many outbound calls an organisation made.
type RateReader interface {
	// Outbound counts the calls in the window up to now.
	Outbound(org string) (int, error)
}

// RateWriter counts outbound calls.
type RateWriter interface {
	// CountOutbound counts one more call and returns true, unless that exceeds limit in the window
	// up to now, by the store's clock. Of any number of concurrent callers, at most limit get true.
	// If the clock is set back, later counts are dropped. The empty org counts too. Invalid: the
	// limit is below 1, or the org has more than 256 bytes.
	CountOutbound(org string, limit int) (bool, error)
}
