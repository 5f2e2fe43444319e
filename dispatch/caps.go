package dispatch

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// The default limits.
const (
	DefaultPerSession = 5
	DefaultPerProcess = 64
	DefaultDetached   = 32
	DefaultQueued     = 32
	DefaultLive       = 32
)

// Caps are the limits of background work. In each number 0 is the default, and less than 0 is no
// limit.
type Caps struct {
	PerSession int // running in a session, without detached calls; not used with perdure.OverflowEvict
	PerProcess int // running in the process
	Detached   int // running detached calls of a session; further calls stay in the foreground
	Queued     int // waiting for a slot in a session; further ones are refused with perdure.Limit
	// Live is the number of live background tasks of a session before the oldest is canceled; only
	// with perdure.OverflowEvict.
	Live     int
	Overflow perdure.Overflow // what happens to a call if there is no slot; empty: perdure.OverflowQueue
}

// withDefaults fills in the defaults. An unknown overflow policy is Invalid.
func (c Caps) withDefaults() (Caps, error) {
	for _, field := range []struct {
		cap      *int
		fallback int
	}{
		{&c.PerSession, DefaultPerSession}, {&c.PerProcess, DefaultPerProcess}, {&c.Detached, DefaultDetached}, {&c.Queued, DefaultQueued}, {&c.Live, DefaultLive},
	} {
		if *field.cap == 0 {
			*field.cap = field.fallback
		}
	}
	if !c.Overflow.Valid() {
		return c, fmt.Errorf("dispatch: %w: Caps.Overflow is %q; use perdure.OverflowQueue, OverflowReject "+
			"or OverflowEvict", perdure.Invalid, c.Overflow)
	}
	return c, nil
}

// limits returns the limits in the form that the rules of the root package use.
func (c Caps) limits() perdure.SlotCaps {
	return perdure.SlotCaps{PerSession: c.PerSession, PerProcess: c.PerProcess, Detached: c.Detached, Queued: c.Queued, Live: c.Live}
}

// slotUsage counts the background work of a session and of the process. It includes starts that
// were admitted and wait for the journal, but not the queue. The caller holds mu.
func (a *Async) slotUsage(session perdure.SessionID) perdure.SlotUsage {
	var use perdure.SlotUsage
	use.PerSession, use.PerProcess = a.runner.SlotsInUse(session)
	for t := range a.admitted {
		use.PerProcess++
		if t.call.Session == session {
			use.PerSession++
		}
	}
	return use
}

// slotFree reports whether a slot for a call of the session is free. The queue is ignored. The
// caller holds mu.
func (a *Async) slotFree(session perdure.SessionID) bool {
	free, _, _ := a.cfg.Caps.Overflow.Admit(a.cfg.Caps.limits(), a.slotUsage(session))
	return free
}

// admit decides whether a background launch starts or waits in the queue. Limit: the queue is full,
// too. The caller holds mu.
func (a *Async) admit(session perdure.SessionID) (starts bool, err error) {
	use := a.slotUsage(session)
	use.Queued = a.queuedIn(session)
	starts, _, err = a.cfg.Caps.Overflow.Admit(a.cfg.Caps.limits(), use)
	return starts, err
}

// queuedIn counts the queued tasks of a session. The caller holds mu.
func (a *Async) queuedIn(session perdure.SessionID) int {
	n := 0
	for _, t := range a.queue {
		if t.call.Session == session {
			n++
		}
	}
	return n
}

// checkDetach returns why no further call of the session may detach, or nil. The caller holds mu.
func (a *Async) checkDetach(session perdure.SessionID) error {
	use := a.slotUsage("")
	for _, t := range a.live {
		if t.call.Session == session && (t.detaching || t.lane == perdure.Background && t.routing.Lane == perdure.Foreground) {
			use.Detached++
		}
	}
	return a.cfg.Caps.Overflow.AdmitDetached(a.cfg.Caps.limits(), use)
}

// startQueued starts queued tasks for which there is a slot, the oldest first. A task that must
// wait does not hold up the tasks of other sessions.
func (a *Async) startQueued() {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.queue
	a.queue = nil
	for i, t := range waiting {
		switch {
		case t.settling:
		case !a.slotFree(t.call.Session):
			a.queue = append(a.queue, t)
		case a.execute(t) != nil: // shut down: the task stays as it is
			a.queue = append(a.queue, waiting[i:]...)
			return
		}
	}
}

// evict cancels the oldest live background tasks of a session that exceeds Caps.Live, if the policy
// is perdure.OverflowEvict. It never cancels the newest one.
func (a *Async) evict(session perdure.SessionID) {
	for {
		oldest := a.oldestExcess(session)
		if oldest == "" {
			return
		}
		_, err := a.Handle().Cancel(oldest, "system", "evicted")
		if errors.Is(err, perdure.NotFound) {
			return // the session was forgotten meanwhile
		}
		if err != nil {
			a.log.Error("background task eviction failed", "task", oldest, "session", session, "error", err)
			return
		}
		a.log.Warn("background task evicted", "task", oldest, "session", session, "cap", a.cfg.Caps.Live)
	}
}

// oldestExcess returns the oldest background task of a session that exceeds the limit. Tasks that
// are already being canceled do not count.
func (a *Async) oldestExcess(session perdure.SessionID) perdure.TaskID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var oldest *task
	live := 0
	for _, t := range a.live {
		if t.call.Session != session || t.lane != perdure.Background || t.canceled != nil || t.settling {
			continue
		}
		live++
		if oldest == nil || t.backgroundSince < oldest.backgroundSince {
			oldest = t
		}
	}
	if a.cfg.Caps.Overflow.Excess(a.cfg.Caps.limits(), live) == 0 {
		return ""
	}
	return oldest.id
}
