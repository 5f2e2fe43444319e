package local

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The idle watchdog's defaults.
const (
	defaultIdle     = 30 * time.Minute
	defaultIdleHard = 2 * time.Hour
)

// textIdle is the error of a turn in which nothing happened for too long (ER6).
const textIdle = "The session has been idle for too long. Please try again."

// watchdog ends a turn in which nothing real happens: no text, no result, no progress (RC19). Keep-alives do not count, and
// nobody is hurried who waits for a person or for a back-off to pass.
type watchdog struct {
	e     *Engine
	id    perdure.SessionID
	begun time.Time    // the other moments count from it, so that a jump of the wall clock makes nobody idle (R11)
	last  atomic.Int64 // the latest sign of life, in nanoseconds from begun
	bell  *time.Timer  // only touched by the driver
	held  bool         // only touched by the driver; somebody was waited for when it looked last
}

// checkIdle holds the limits of the watchdog against the longest wait that a tool offers: at most half of each (TN15, ER7). Invalid:
// which one is too short, and what to change.
func checkIdle(cfg Config) error {
	if cfg.IdleTimeout < 0 {
		return nil
	}
	var longest tool.Spec
	for _, name := range cfg.Tools.Names() {
		if t, ok := cfg.Tools.Get(name); ok && t.Spec().Waits > longest.Waits {
			longest = t.Spec()
		}
	}
	limits := []struct {
		name  string
		value time.Duration
	}{{"IdleTimeout", cfg.IdleTimeout}, {"IdleHardCap", cfg.IdleHardCap}}
	for _, limit := range limits {
		if limit.value < 2*longest.Waits {
			return fmt.Errorf("%w configuration: %s %s is under twice the longest wait of a tool, %s of %s: raise the limit, or let the tool wait for less",
				perdure.Invalid, limit.name, limit.value, longest.Waits, longest.Name)
		}
	}
	return nil
}

// sign notes that something happened in a session.
func (e *Engine) sign(id perdure.SessionID) {
	if w, ok := e.watched.Load(id); ok {
		w.(*watchdog).touch()
	}
}

// watchIdle begins to watch a session for its driver.
func (e *Engine) watchIdle(id perdure.SessionID) *watchdog {
	w := &watchdog{e: e, id: id, begun: time.Now()}
	w.touch()
	e.watched.Store(id, w)
	return w
}

// touch notes a sign of life.
func (w *watchdog) touch() { w.last.Store(int64(time.Since(w.begun))) }

// end stops watching.
func (w *watchdog) end() {
	w.e.watched.CompareAndDelete(w.id, w)
	if w.bell != nil {
		w.bell.Stop()
	}
}

// look ends the turn if its time is over, and else has the driver look again when it may be.
func (w *watchdog) look(ctx context.Context, d *effect.Drive) error {
	s := d.Session()
	held := w.held
	limit := w.limit(s)
	if limit <= 0 {
		return nil
	}
	if held { // whoever was waited for has answered: the clock goes on from here
		w.touch()
	}
	left := limit - (time.Since(w.begun) - time.Duration(w.last.Load()))
	if left > 0 {
		w.ring(left)
		return nil
	}
	w.e.cfg.Log.Warn("a turn was idle for too long", "session", w.id, "turn", s.Turn.ID, "limit", limit, "calls", unresolved(s.Turn))
	defer w.e.wake(w.id)
	return w.e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if _, err := tx.LockSession(w.id, d.Epoch()); err != nil {
			return err
		}
		return w.e.append(tx, w.id, perdure.Event{Actor: "runtime", Turn: s.Turn.ID, Fact: perdure.InterruptRequested{
			By: "runtime", Reason: textIdle, Code: perdure.CodeIdle,
		}})
	})
}

// ring has the driver look again after a while.
func (w *watchdog) ring(after time.Duration) {
	if w.bell == nil {
		w.bell = time.AfterFunc(after, func() { w.e.wake(w.id) })
		return
	}
	w.bell.Reset(after)
}

// limit is how long nothing may happen now; 0: as long as it takes.
func (w *watchdog) limit(s *perdure.Session) time.Duration {
	t := s.Turn
	if t == nil || t.Interrupt != nil || w.e.cfg.IdleTimeout < 0 {
		return 0
	}
	if time.Now().Before(t.NotBefore) { // a back-off is no idleness: the clock starts when it is over
		w.last.Store(int64(time.Since(w.begun) + time.Until(t.NotBefore)))
	}
	w.held = false
	limit := w.e.cfg.IdleTimeout
	for _, c := range t.Calls {
		switch c.Phase {
		case perdure.CallAsking, perdure.CallRequested:
			w.touch() // a person thinks; the clock stands still
			w.held = true
			return 0
		case perdure.CallInWork:
			limit = max(w.e.cfg.IdleHardCap, w.named(c))
			if s.ChildWaits(c.ID) { // its subagent waits for a person (SA10)
				w.touch()
				w.held = true
				return 0
			}
		}
	}
	return limit
}

// named is for how long a call may be silent that says itself how long it may last, beyond the cap; 0: for no longer than the cap.
// Where a deadline is as long as the cap, or is what the call says, it comes first.
func (w *watchdog) named(c perdure.TurnCall) time.Duration {
	t, ok := w.e.cfg.Tools.Get(c.Name)
	if !ok {
		return 0
	}
	_, timed := t.(tool.Timed)
	most, cap := tool.DeadlineOf(t, c.Args), w.e.cfg.IdleHardCap
	if most == cap || timed && most > cap {
		return most + stopTime
	}
	return 0
}

// unresolved names the calls of a turn that have no result, as name and the beginning of their id (ER6).
func unresolved(t *perdure.Turn) string {
	var names []string
	for _, c := range t.Calls {
		if c.Phase != perdure.CallDone {
			names = append(names, fmt.Sprintf("%s(id=%.12s)", c.Name, c.ID))
		}
	}
	if len(names) == 0 {
		return "(none tracked)"
	}
	return strings.Join(names, ", ")
}
