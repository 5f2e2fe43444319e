package dispatch

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// The default caps (BG16, BG17).
const (
	DefaultPerSession = 5
	DefaultPerProcess = 64
	DefaultDetached   = 32
	DefaultQueued     = 32
	DefaultLive       = 32
)

// Caps bounds the background work. In each number 0 is the default, and less than 0 is no bound.
type Caps struct {
	PerSession int              // running in a session, without those that detached; not asked with perdure.OverflowEvict
	PerProcess int              // running at all
	Detached   int              // running in a session, having begun in the foreground; more stay there and try again
	Queued     int              // waiting for a slot in a session; more are refused with perdure.Limit
	Live       int              // background tasks of a session that have not ended, with perdure.OverflowEvict: then the oldest is cancelled
	Overflow   perdure.Overflow // what happens to a call for which there is no slot; empty: perdure.OverflowQueue
}

// filled puts in the defaults. Invalid: there is no such policy.
func (c Caps) filled() (Caps, error) {
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
		return c, fmt.Errorf("dispatch: %w: Caps.Overflow is %q; give perdure.OverflowQueue, OverflowReject or OverflowEvict", perdure.Invalid, c.Overflow)
	}
	return c, nil
}

// slots are the caps by which the root's rules judge.
func (c Caps) slots() perdure.SlotCaps {
	return perdure.SlotCaps{PerSession: c.PerSession, PerProcess: c.PerProcess, Detached: c.Detached, Queued: c.Queued, Live: c.Live}
}

// use is the background work of a session and of the process, with the starts that were admitted and ask the journal, but without
// the queue. mu is held.
func (a *Async) use(session perdure.SessionID) perdure.SlotUse {
	var use perdure.SlotUse
	use.PerSession, use.PerProcess = a.runner.Places(session)
	for t := range a.admitted {
		use.PerProcess++
		if t.call.Session == session {
			use.PerSession++
		}
	}
	return use
}

// free reports whether a call of a session may start in the background, whatever is queued. mu is held.
func (a *Async) free(session perdure.SessionID) bool {
	free, _, _ := a.cfg.Caps.Overflow.Admit(a.cfg.Caps.slots(), a.use(session))
	return free
}

// admit says whether a background launch starts or waits in the queue. Limit: neither. mu is held.
func (a *Async) admit(session perdure.SessionID) (starts bool, err error) {
	use := a.use(session)
	use.Queued = a.waiting(session)
	starts, _, err = a.cfg.Caps.Overflow.Admit(a.cfg.Caps.slots(), use)
	return starts, err
}

// waiting counts the tasks of a session that wait for a slot. mu is held.
func (a *Async) waiting(session perdure.SessionID) int {
	n := 0
	for _, t := range a.queue {
		if t.call.Session == session {
			n++
		}
	}
	return n
}

// mayLeave says why no call more of a session may detach; nil: one may. mu is held.
func (a *Async) mayLeave(session perdure.SessionID) error {
	use := a.use("")
	for _, t := range a.live {
		if t.call.Session == session && (t.leaving || t.lane == perdure.Background && t.routing.Lane == perdure.Foreground) {
			use.Detached++
		}
	}
	return a.cfg.Caps.Overflow.AdmitDetached(a.cfg.Caps.slots(), use)
}

// freed starts what waits for a slot, the oldest first. A task without a slot holds up no other session's.
func (a *Async) freed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.queue
	a.queue = nil
	for i, t := range waiting {
		switch {
		case t.settling:
		case !a.free(t.call.Session):
			a.queue = append(a.queue, t)
		case a.execute(t) != nil: // shut down: left as it is (RC11)
			a.queue = append(a.queue, waiting[i:]...)
			return
		}
	}
}

// evict cancels the oldest live background tasks of a session that has more of them than it may, where that is the policy. The
// newest one is never the one that goes.
func (a *Async) evict(session perdure.SessionID) {
	for {
		oldest := a.excess(session)
		if oldest == "" {
			return
		}
		_, err := a.Handle().Cancel(oldest, "system", "evicted")
		if errors.Is(err, perdure.NotFound) {
			return // it was forgotten meanwhile, and so is its session
		}
		if err != nil {
			a.log.Error("a background task was not evicted", "task", oldest, "session", session, "error", err)
			return
		}
		a.log.Warn("a background task is evicted", "task", oldest, "session", session, "cap", a.cfg.Caps.Live)
	}
}

// excess returns the task that has been in the background for longest, if its session has too many that nobody cancels yet.
func (a *Async) excess(session perdure.SessionID) perdure.TaskID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var oldest *task
	live := 0
	for _, t := range a.live {
		if t.call.Session != session || t.lane != perdure.Background || t.canceled != nil || t.settling {
			continue
		}
		live++
		if oldest == nil || t.since < oldest.since {
			oldest = t
		}
	}
	if a.cfg.Caps.Overflow.Excess(a.cfg.Caps.slots(), live) == 0 {
		return ""
	}
	return oldest.id
}
