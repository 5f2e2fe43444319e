package webhook

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// steps are the longest pauses after a try that failed. Together they are 24 hours.
var steps = []time.Duration{
	5 * time.Second, 55 * time.Second, 4 * time.Minute, 15 * time.Minute, 40 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 7 * time.Hour, 9 * time.Hour,
}

// jitter is the part of a pause, in hundredths, that chance may take away.
const jitter = 20

// MaxAttempts is how often a delivery is tried.
func MaxAttempts() int { return len(steps) + 1 }

// Delay is the pause after so many tries that failed, and false when none is left. It is the same for the same seed, and more
// than the one before it, whatever the seed; all of them together are 19 to 24 hours.
func Delay(attempts int, seed string) (time.Duration, bool) {
	if attempts < 1 || attempts > len(steps) {
		return 0, false
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", attempts, seed))
	step := steps[attempts-1]
	spread := uint64(step) / 100 * jitter
	return step - time.Duration(binary.BigEndian.Uint64(sum[:])%(spread+1)), true
}

// GivesUp reports whether a webhook is switched off, when a delivery has just failed for good: all of its tries over a day
// failed, and nothing else got through meanwhile.
func (w Webhook) GivesUp() bool { return w.Failures >= MaxAttempts() }
