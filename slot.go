package perdure

import "fmt"

// Overflow says what happens to background work when no slot is free. The zero value is
// OverflowQueue.
type Overflow string

// The policies for overflow.
const (
	OverflowQueue  Overflow = "queue"  // it waits for a slot, up to the limit of the queue
	OverflowReject Overflow = "reject" // it is refused
	// it starts, and the oldest live background task of the session is canceled
	OverflowEvict Overflow = "evict_oldest"
)

// Valid reports whether o is a policy; the zero value counts.
func (o Overflow) Valid() bool {
	return o == "" || o == OverflowQueue || o == OverflowReject || o == OverflowEvict
}

// SlotCaps are the limits of background work. In each field, 0 or less means no limit.
type SlotCaps struct {
	PerSession int // running in a session, without detached calls; not used with OverflowEvict
	PerProcess int // running in the process
	Detached   int // detached calls that run in a session; not used with OverflowEvict
	Queued     int // waiting for a slot in a session
	Live       int // live in a session before the oldest is canceled; only used with OverflowEvict
}

// SlotUsage is the present amount of background work, counted as the caps of the same names.
type SlotUsage struct{ PerSession, PerProcess, Detached, Queued int }

// NoSlot says that there is no slot for background work. The model reads the text. errors.Is
// matches Limit.
type NoSlot struct{ Text string }

// Error returns the text.
func (e *NoSlot) Error() string { return e.Text }

// Is reports whether target is Limit.
func (e *NoSlot) Is(target error) bool { return target == Limit }

// Admit says whether new background work may start now. If not, position is its place in the queue
// of its session, from 1, because queued work starts first. The error is NoSlot if it may not wait
// either.
func (o Overflow) Admit(caps SlotCaps, use SlotUsage) (free bool, position int, err error) {
	session := o != OverflowEvict && reached(use.PerSession, caps.PerSession)
	process := reached(use.PerProcess, caps.PerProcess)
	switch {
	case !session && !process && use.Queued == 0:
		return true, 0, nil
	case o != OverflowReject && !reached(use.Queued, caps.Queued):
		return false, use.Queued + 1, nil
	case process && !session:
		return false, 0, &NoSlot{fmt.Sprintf("Worker is already running the maximum %d active background runs. Try again after an existing run finishes.", caps.PerProcess)}
	default:
		return false, 0, &NoSlot{fmt.Sprintf("Maximum %d active background runs per session. Wait for an existing run to finish before starting another.", caps.PerSession)}
	}
}

// AdmitDetached returns nil if one more call may detach. On NoSlot it stays in the foreground until
// a slot is free.
func (o Overflow) AdmitDetached(caps SlotCaps, use SlotUsage) error {
	if o != OverflowEvict && reached(use.Detached, caps.Detached) || reached(use.PerProcess, caps.PerProcess) {
		return &NoSlot{"No background slot is free: the call stays in the foreground until there is one."}
	}
	return nil
}

// Excess returns how many of the live background tasks of a session have to be canceled, oldest
// first.
func (o Overflow) Excess(caps SlotCaps, live int) int {
	if o != OverflowEvict || caps.Live <= 0 {
		return 0
	}
	return max(live-caps.Live, 0)
}

// reached reports whether a limit admits no more.
func reached(n, limit int) bool { return limit > 0 && n >= limit }
