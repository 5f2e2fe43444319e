package local

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
)

// Blind keeps the lease valid by the worker's own clock, as if its process were stopped and none of
// its timers fired. Only refusals by the store stop it then.
func Blind(e *Engine) {
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	e.lease.until = time.Now().Add(1000 * time.Hour)
	if e.lease.timer != nil {
		e.lease.timer.Stop()
	}
}

// Leads reports whether a worker leads, as far as it knows.
func Leads(e *Engine) bool { return e.leads() }

// Worker returns the id of an engine's worker.
func Worker(e *Engine) perdure.WorkerID { return e.worker.ID }

// NewDriver returns a driver of a session that Drive does not know.
func (g *Granted) NewDriver(id perdure.SessionID) *host.Driver { return g.engine.host.NewDriver(id) }
