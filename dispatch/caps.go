package dispatch

import (
	"fmt"

	"github.com/perdure/perdure"
)

// The default caps (BG16, BG17).
const (
	DefaultPerSession = 5
	DefaultPerProcess = 64
	DefaultDetached   = 32
	DefaultQueued     = 32
)

// Caps bounds the background work. In each field 0 is the default, and less than 0 is no bound.
type Caps struct {
	PerSession int // running in a session, without those that detached
	PerProcess int // running at all
	Detached   int // running in a session, having begun in the foreground; more stay there and try again
	Queued     int // waiting for a place in a session; more are refused with perdure.Limit
}

func (c Caps) filled() Caps {
	for _, field := range []struct {
		cap      *int
		fallback int
	}{{&c.PerSession, DefaultPerSession}, {&c.PerProcess, DefaultPerProcess}, {&c.Detached, DefaultDetached}, {&c.Queued, DefaultQueued}} {
		if *field.cap == 0 {
			*field.cap = field.fallback
		}
	}
	return c
}

// within reports whether one more fits.
func within(n, bound int) bool { return bound < 0 || n < bound }

// place reports whether background work of a session may start. mu is held.
func (a *Async) place(session perdure.SessionID) bool {
	if a.cfg.Caps.PerSession < 0 && a.cfg.Caps.PerProcess < 0 {
		return true
	}
	ofSession, ofProcess := a.runner.Places(session)
	return within(ofSession, a.cfg.Caps.PerSession) && within(ofProcess, a.cfg.Caps.PerProcess)
}

// room reports whether a background launch can start or wait. mu is held.
func (a *Async) room(session perdure.SessionID) error {
	n := a.waiting(session)
	if n == 0 && a.place(session) || within(n, a.cfg.Caps.Queued) {
		return nil
	}
	return fmt.Errorf("start: %w: Maximum %d active background runs per session. Wait for an existing run to finish before starting another.",
		perdure.Limit, a.cfg.Caps.PerSession)
}

// waiting counts the tasks of a session that wait for a place. mu is held.
func (a *Async) waiting(session perdure.SessionID) int {
	n := 0
	for _, t := range a.queue {
		if t.call.Session == session {
			n++
		}
	}
	return n
}

// roomToLeave reports whether one more call of a session may detach. mu is held.
func (a *Async) roomToLeave(session perdure.SessionID) bool {
	left := 0
	for _, t := range a.live {
		if t.call.Session == session && (t.leaving || t.lane == perdure.Background && t.routing.Lane == perdure.Foreground) {
			left++
		}
	}
	_, ofProcess := a.runner.Places("")
	return within(left, a.cfg.Caps.Detached) && within(ofProcess, a.cfg.Caps.PerProcess)
}

// freed starts what waits for a place, the oldest first. Who has no place holds up nobody else.
func (a *Async) freed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.queue
	a.queue = nil
	for i, t := range waiting {
		switch {
		case t.settling:
		case !a.place(t.call.Session):
			a.queue = append(a.queue, t)
		case a.execute(t) != nil: // shut down: left as it is (RC11)
			a.queue = append(a.queue, waiting[i:]...)
			return
		}
	}
}
