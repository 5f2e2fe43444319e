package access

import (
	"sync"
	"time"
)

// maxPaced is how many keys a pace remembers.
const maxPaced = 4096

// Pace lets each key do something so many times at once, and then once each while. The zero value of Burst is one at once.
// It is safe for concurrent use.
type Pace[K comparable] struct {
	Burst int
	Every time.Duration // after which one more is allowed

	mu sync.Mutex
	by map[K]time.Time // guarded by mu; when all that was counted is forgotten
}

// Wait is how long a key has to wait before it may do it again; 0: not at all.
func (p *Pace[K]) Wait(key K, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait(key, now)
}

func (p *Pace[K]) wait(key K, now time.Time) time.Duration {
	until, counted := p.by[key]
	if !counted {
		return 0
	}
	return max(until.Sub(now)-time.Duration(max(p.Burst, 1)-1)*p.Every, 0)
}

// Count counts one, whether it was allowed or not.
func (p *Pace[K]) Count(key K, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(key, now)
}

func (p *Pace[K]) count(key K, now time.Time) {
	if p.by == nil {
		p.by = map[K]time.Time{}
	}
	if _, known := p.by[key]; !known && len(p.by) >= maxPaced {
		p.makeRoom(now)
	}
	until := p.by[key]
	if until.Before(now) {
		until = now
	}
	p.by[key] = until.Add(p.Every)
}

// Take counts one if it is allowed now. Else wait is how long it has to wait for that. left is how many more are allowed now.
func (p *Pace[K]) Take(key K, now time.Time) (wait time.Duration, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.wait(key, now); wait > 0 {
		return wait, 0
	}
	p.count(key, now)
	return 0, max(p.Burst, 1) - int((p.by[key].Sub(now)+p.Every-1)/p.Every)
}

// Queue counts one that comes when it is allowed, if that is not later than after most. wait is how long until then.
func (p *Pace[K]) Queue(key K, now time.Time, most time.Duration) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.wait(key, now); wait > most {
		return most
	}
	p.count(key, now)
	return wait
}

// makeRoom forgets who has waited, or else anybody.
func (p *Pace[K]) makeRoom(now time.Time) {
	for key, until := range p.by {
		if until.Before(now) {
			delete(p.by, key)
		}
	}
	for key := range p.by {
		if len(p.by) < maxPaced {
			return
		}
		delete(p.by, key)
	}
}
