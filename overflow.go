package perdure

import "fmt"

// Overflow is what happens to background work for which there is no slot (BG17). The zero value is OverflowQueue.
type Overflow string

// The policies for overflow.
const (
	OverflowQueue  Overflow = "queue"        // it waits for a slot, as long as the queue has room
	OverflowReject Overflow = "reject"       // it is refused
	OverflowEvict  Overflow = "evict_oldest" // it starts, and the oldest live background task of the session is canceled
)

// Valid reports whether o is a policy; the zero value counts.
func (o Overflow) Valid() bool {
	return o == "" || o == OverflowQueue || o == OverflowReject || o == OverflowEvict
}

// SlotCaps bounds background work. In each field 0 and less is no bound.
type SlotCaps struct {
	PerSession int // running in a session, without what left the foreground; not asked with OverflowEvict
	PerProcess int // running in the process
	Detached   int // running in a session, having left the foreground; not asked with OverflowEvict
	Queued     int // waiting for a slot in a session
	Live       int // of a session in any live state, before the oldest is canceled; asked with OverflowEvict only
}

// SlotUse is how much background work there is, each counted as the cap of its name.
type SlotUse struct{ PerSession, PerProcess, Detached, Queued int }

// NoSlot is the error of background work for which there is no slot, in the words that the model reads. errors.Is tells Limit.
type NoSlot struct{ Text string }

// Error returns the words.
func (e *NoSlot) Error() string { return e.Text }

// Is reports whether target is Limit.
func (e *NoSlot) Is(target error) bool { return target == Limit }

// Admit says whether new background work may start now, and otherwise at which position, from 1, it waits in the queue of its
// session. What is queued already comes first. NoSlot: neither.
func (o Overflow) Admit(caps SlotCaps, use SlotUse) (free bool, position int, err error) {
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

// AdmitDetached says whether one more call may leave the foreground. NoSlot: it stays there until a slot is free.
func (o Overflow) AdmitDetached(caps SlotCaps, use SlotUse) error {
	if o != OverflowEvict && reached(use.Detached, caps.Detached) || reached(use.PerProcess, caps.PerProcess) {
		return &NoSlot{"There is no slot in the background: the call stays in the foreground until one is free."}
	}
	return nil
}

// Excess is how many of so many live background tasks of a session are to be canceled, the oldest first.
func (o Overflow) Excess(caps SlotCaps, live int) int {
	if o != OverflowEvict || caps.Live <= 0 {
		return 0
	}
	return max(live-caps.Live, 0)
}

// reached reports a cap that lets nothing more in.
func reached(n, limit int) bool { return limit > 0 && n >= limit }
