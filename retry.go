package perdure

import (
	"hash/fnv"
	"time"
)

// The codes of model failures that the rules themselves look at (4.6).
const (
	CodeEmptyAnswer = "empty_answer"          // no text and no calls: asked once more (TN22)
	CodeInterrupted = "interrupted"           // the model call was stopped with its turn
	CodeDeterminism = "determinism_violation" // LG14
	CodeProcessing  = "processing_error"      // anything else of ours
)

// The bounds of a retry's delay (TN21).
const (
	firstRetryDelay = time.Second
	maxRetryDelay   = 60 * time.Second
	maxRetryAfter   = 10 * time.Minute
)

// RetryDelay is how long to wait after the nth failed attempt, from 1: one second doubling to a minute,
// ±10 % by seed, or what the provider asks for, up to ten minutes (TN21). The same arguments give the same
// delay, so that a restart keeps it.
func RetryDelay(attempt int, asked time.Duration, seed string) time.Duration {
	if asked > 0 {
		return min(asked, maxRetryAfter)
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
