package local

import "time"

// Blind lets the lease hold by the worker's own clock, as if its process were stopped so that no timer of it rings. Only
// what the store refuses stops it then.
func Blind(e *Engine) {
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	e.lease.until = time.Now().Add(1000 * time.Hour)
	if e.lease.bell != nil {
		e.lease.bell.Stop()
	}
}
