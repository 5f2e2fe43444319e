package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxKeys is the number of keys that a RateLimiter remembers.
const maxKeys = 4096

// RateLimiter is a rate limiter with one token bucket per key: Burst actions at once, and then one
// per Every. A Burst of 0 means 1. It is safe for concurrent use.
type RateLimiter[K comparable] struct {
	Burst int
	Every time.Duration // the time after which one more action is allowed

	mu sync.Mutex
	by map[K]*rate.Limiter // guarded by mu, so that nobody reserves before a canceled reservation is undone
}

// Wait returns how long a key has to wait for its next action; 0: not at all.
func (p *RateLimiter[K]) Wait(key K, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	bucket, known := p.by[key]
	if !known {
		return 0
	}
	next := bucket.ReserveN(now, 1)
	defer next.CancelAt(now)
	return next.DelayFrom(now)
}

// Count counts one action, whether it was allowed or not.
func (p *RateLimiter[K]) Count(key K, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket(key, now).ReserveN(now, 1)
}

// Allow counts one action if it is allowed now; wait is then 0, and left is the number of further
// actions allowed now. Otherwise wait is how long the key has to wait.
func (p *RateLimiter[K]) Allow(key K, now time.Time) (wait time.Duration, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bucket := p.bucket(key, now)
	next := bucket.ReserveN(now, 1)
	if wait = next.DelayFrom(now); wait > 0 {
		next.CancelAt(now)
		return wait, 0
	}
	return 0, int(bucket.TokensAt(now))
}

// Reserve counts one action for the time when it is allowed, if that is at most most from now. wait
// is the time until then.
func (p *RateLimiter[K]) Reserve(key K, now time.Time, most time.Duration) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.bucket(key, now).ReserveN(now, 1)
	if wait = next.DelayFrom(now); wait > most {
		next.CancelAt(now)
		return most
	}
	return wait
}

// bucket returns the bucket of a key. The caller holds the mutex.
func (p *RateLimiter[K]) bucket(key K, now time.Time) *rate.Limiter {
	bucket, known := p.by[key]
	if known {
		return bucket
	}
	if p.by == nil {
		p.by = map[K]*rate.Limiter{}
	}
	if len(p.by) >= maxKeys {
		p.evictKeys(now)
	}
	bucket = rate.NewLimiter(rate.Every(p.Every), max(p.Burst, 1))
	p.by[key] = bucket
	return bucket
}

// evictKeys removes keys with a full bucket, and if there are none, arbitrary ones.
func (p *RateLimiter[K]) evictKeys(now time.Time) {
	for key, bucket := range p.by {
		if bucket.TokensAt(now) >= float64(bucket.Burst()) {
			delete(p.by, key)
		}
	}
	for key := range p.by {
		if len(p.by) < maxKeys {
			return
		}
		delete(p.by, key)
	}
}
