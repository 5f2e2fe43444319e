package perdure

import (
	"hash/fnv"
	"time"
)

// The bounds of a retry's delay.
const (
	firstRetryDelay = time.Second
	maxRetryDelay   = 60 * time.Second
	maxRetryAfter   = 10 * time.Minute
)

// RetryDelay returns the wait after the nth failed attempt, from 1. It is what the provider asked
// for, at most ten minutes, or else one second, doubled per attempt up to a minute, ±10 %. The
// jitter comes from seed, so that a restart computes the same delay.
func RetryDelay(attempt int, retryAfter time.Duration, seed string) time.Duration {
	if retryAfter > 0 {
		return min(retryAfter, maxRetryAfter)
	}
	delay := maxRetryDelay
	if attempt < 7 {
		delay = min(firstRetryDelay<<max(attempt-1, 0), maxRetryDelay)
	}
	h := fnv.New32a()
	h.Write([]byte(seed))
	jitter := int64(h.Sum32()%201) - 100 // thousandths of the delay
	return delay + delay/1000*time.Duration(jitter)
}
