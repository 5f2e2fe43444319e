package host

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

// textIdle is the error of a turn without activity for too long (ER6).
const textIdle = "The session has been idle for too long. Please try again."

// watchdog ends a turn without activity: no text, no result, no progress (RC19). Keep-alives are
// not activity. The time in which a turn waits for a person or for a retry delay does not count.
type watchdog struct {
	e     *Host
	id    perdure.SessionID
	begun time.Time    // monotonic reference for last, so that a jump of the wall clock does not make a turn idle (R11)
	last  atomic.Int64 // the last activity, in nanoseconds since begun
	timer *time.Timer  // only touched by the driver
	held  bool         // only touched by the driver: the last look found the turn waiting for a person
}

// checkIdle checks that the longest wait of a tool is at most half of each limit (TN15, ER7).
// Invalid names the limit that is too short.
func checkIdle(cfg Config) error {
	if cfg.Timing.Idle < 0 {
		return nil
	}
	var longest tool.Spec
	for _, name := range cfg.Tools.Names() {
		if t, ok := cfg.Tools.Get(name); ok && t.Spec().MaxWait > longest.MaxWait {
			longest = t.Spec()
		}
	}
	limits := []struct {
		name  string
		value time.Duration
	}{{"Timing.Idle", cfg.Timing.Idle}, {"Timing.IdleHardCap", cfg.Timing.IdleHardCap}}
	for _, limit := range limits {
		if limit.value < 2*longest.MaxWait {
			return fmt.Errorf("%w configuration: %s %s is less than twice the longest wait of a tool, %s of %s; "+
				"raise the limit or shorten the wait",
				perdure.Invalid, limit.name, limit.value, longest.MaxWait, longest.Name)
		}
	}
	return nil
}

// reportActivity records activity in a session.
func (e *Host) reportActivity(id perdure.SessionID) {
	if w, ok := e.watched.Load(id); ok {
		w.(*watchdog).touch()
	}
}

// watchIdle starts the watchdog of a session for its driver.
func (e *Host) watchIdle(id perdure.SessionID) *watchdog {
	w := &watchdog{e: e, id: id, begun: time.Now()}
	w.touch()
	e.watched.Store(id, w)
	return w
}

// touch records activity now.
func (w *watchdog) touch() { w.last.Store(int64(time.Since(w.begun))) }

// end stops the watchdog.
func (w *watchdog) end() {
	w.e.watched.CompareAndDelete(w.id, w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look interrupts the turn if it was idle for too long. Otherwise it wakes the driver when that may
// be the case.
func (w *watchdog) look(ctx context.Context, d *effect.Drive) error {
	s := d.Session()
	held := w.held
	limit := w.limit(s)
	if limit <= 0 {
		return nil
	}
	if held { // the person has answered, so the time counts from now on
		w.touch()
	}
	left := limit - (time.Since(w.begun) - time.Duration(w.last.Load()))
	if left > 0 {
		w.wakeAfter(left)
		return nil
	}
	w.e.cfg.Log.Warn("turn idle for too long",
		"session", w.id, "turn", s.Turn.ID, "limit", limit, "calls", unresolved(s.Turn))
	defer w.e.scheduler.Wake(w.id)
	return w.e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if _, err := tx.Sessions().Lock(w.id, d.Epoch()); err != nil {
			return err
		}
		return w.e.append(tx, w.id, perdure.Event{Actor: "runtime", Turn: s.Turn.ID, Fact: perdure.InterruptRequested{
			By: "runtime", Reason: textIdle, Code: perdure.CodeIdle,
		}})
	})
}

// wakeAfter wakes the driver after a while.
func (w *watchdog) wakeAfter(after time.Duration) {
	if w.timer == nil {
		w.timer = time.AfterFunc(after, func() { w.e.scheduler.Wake(w.id) })
		return
	}
	w.timer.Reset(after)
}

// limit returns how long the turn may be idle now; 0: without limit.
func (w *watchdog) limit(s *perdure.Session) time.Duration {
	t := s.Turn
	if t == nil || t.Interrupt != nil || w.e.cfg.Timing.Idle < 0 {
		return 0
	}
	if time.Now().Before(t.NotBefore) { // a retry delay is not idle time, so the time counts from its end
		w.last.Store(int64(time.Since(w.begun) + time.Until(t.NotBefore)))
	}
	w.held = false
	limit := w.e.cfg.Timing.Idle
	for _, c := range t.Calls {
		switch c.Phase {
		case perdure.CallAwaitingApproval, perdure.CallAwaitingClient:
			w.touch() // a person decides; this time does not count
			w.held = true
			return 0
		case perdure.CallExecuting:
			limit = max(w.e.cfg.Timing.IdleHardCap, w.ownLimit(c))
			if s.SubagentAwaitsInput(c.ID) { // its subagent waits for a person (SA10)
				w.touch()
				w.held = true
				return 0
			}
		}
	}
	return limit
}

// ownLimit returns how long a call may be silent if its own deadline reaches beyond IdleHardCap;
// otherwise 0. The deadline then ends the call before the watchdog does.
func (w *watchdog) ownLimit(c perdure.TurnCall) time.Duration {
	t, ok := w.e.cfg.Tools.Get(c.Name)
	if !ok {
		return 0
	}
	_, timed := t.(tool.Timed)
	most, cap := tool.DeadlineWith(t, c.Args, w.e.cfg.Timing.Deadline), w.e.cfg.Timing.IdleHardCap
	if most == cap || timed && most > cap {
		return most + stopTime
	}
	return 0
}

// unresolved lists the calls of a turn without a result, with name and id prefix (ER6).
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
