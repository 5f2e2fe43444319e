package webhook

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// retryDelays are the longest waits after a failed attempt. Their sum is 24 hours.
var retryDelays = []time.Duration{
	5 * time.Second, 55 * time.Second, 4 * time.Minute, 15 * time.Minute, 40 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 7 * time.Hour, 9 * time.Hour,
}

// jitter is the percentage by which chance can shorten a wait.
const jitter = 20

// MaxAttempts returns how often a delivery is attempted.
func MaxAttempts() int { return len(retryDelays) + 1 }

// Delay returns the wait after the given number of failed attempts, and false if none is left. The
// same seed gives the same wait. Each wait is longer than the one before it, and all of them
// together are 19 to 24 hours.
func Delay(attempts int, seed string) (time.Duration, bool) {
	if attempts < 1 || attempts > len(retryDelays) {
		return 0, false
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", attempts, seed))
	step := retryDelays[attempts-1]
	spread := uint64(step) / 100 * jitter
	return step - time.Duration(binary.BigEndian.Uint64(sum[:])%(spread+1)), true
}

// ShouldDisable reports whether a webhook is disabled after a delivery has finally failed: all of
// its attempts over a day failed, and no other delivery succeeded meanwhile.
func (w Webhook) ShouldDisable() bool { return w.Failures >= MaxAttempts() }
