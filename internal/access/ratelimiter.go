package access

import (
	"sync"
	"time"
)

// maxKeys is the number of keys that a Pace remembers.
const maxKeys = 4096

// RateLimiter is a rate limiter with one token bucket per key: Burst actions at once, and then one
// per Every. A Burst of 0 means 1. It is safe for concurrent use.
type RateLimiter[K comparable] struct {
	Burst int
	Every time.Duration // the time after which one more action is allowed

	mu sync.Mutex
	by map[K]time.Time // guarded by mu; when everything counted for a key has expired
}

// Wait returns how long a key has to wait for its next action; 0: not at all.
func (p *RateLimiter[K]) Wait(key K, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(key, now)
}

func (p *RateLimiter[K]) wait(key K, now time.Time) time.Duration {
	until, counted := p.by[key]
	if !counted {
		return 0
	}
	return max(until.Sub(now)-time.Duration(max(p.Burst, 1)-1)*p.Every, 0)
}

// Count counts one action, whether it was allowed or not.
func (p *RateLimiter[K]) Count(key K, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(key, now)
}

func (p *RateLimiter[K]) count(key K, now time.Time) {
	if p.by == nil {
		p.by = map[K]time.Time{}
	}
	if _, known := p.by[key]; !known && len(p.by) >= maxKeys {
		p.evictKeys(now)
	}
	until := p.by[key]
	if until.Before(now) {
		until = now
	}
	p.by[key] = until.Add(p.Every)
}

// Allow counts one action if it is allowed now; wait is then 0, and left is the number of further
// actions allowed now. Otherwise wait is how long the key has to wait.
func (p *RateLimiter[K]) Allow(key K, now time.Time) (wait time.Duration, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.wait(key, now); wait > 0 {
		return wait, 0
	}
	p.count(key, now)
	return 0, max(p.Burst, 1) - int((p.by[key].Sub(now)+p.Every-1)/p.Every)
}

// Reserve counts one action for the time when it is allowed, if that is at most most from now. wait
// is the time until then.
func (p *RateLimiter[K]) Reserve(key K, now time.Time, most time.Duration) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.wait(key, now); wait > most {
		return most
	}
	p.count(key, now)
	return wait
}

// evictKeys removes expired keys, and if that is not enough, arbitrary ones.
func (p *RateLimiter[K]) evictKeys(now time.Time) {
	for key, until := range p.by {
		if until.Before(now) {
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
