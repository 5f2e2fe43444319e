package perdure

import (
	"context"
	"fmt"
)

// Kind is a kind of error. It is itself an error, so that a caller asks errors.Is(err, perdure.NotFound).
// Adapters turn their driver's errors into kinds at the border; each way in maps a kind once (ER1).
type Kind string

// The kinds of error. Anything else is internal.
const (
	NotFound       Kind = "not found"       // no such thing, or it belongs to somebody else (ER2)
	Conflict       Kind = "conflict"        // an id, a compare-and-set or a live claim stands in the way
	Lost           Kind = "lost"            // a fence (epoch, attempt, token) was passed by another: write nothing more and stop
	Limit          Kind = "limit"           // a cap is reached
	Unavailable    Kind = "unavailable"     // not now: try again later
	UnknownOutcome Kind = "unknown outcome" // it may or may not have happened
	Storage        Kind = "storage"         // the store cannot promise durability any more
	Invalid        Kind = "invalid"         // the input is wrong, and will be wrong again
	Denied         Kind = "denied"          // who asks is known, and may not
)

// Error makes Kind an error; its text is the kind's name.
func (k Kind) Error() string { return string(k) }

// Rotated is the error of who asks for a place of a task's log that is not there any more, or never was: it is in the middle of
// more output than is kept, which is the beginning and the end. Its kind is NotFound.
type Rotated struct {
	Offset int64 // that was asked for
	First  int64 // where the log goes on
}

// Error says where the log goes on.
func (r *Rotated) Error() string {
	return fmt.Sprintf("the log was rotated: it was longer than what is kept of one, and of what is behind byte %d it has nothing before byte %d. Read on from there", r.Offset, r.First)
}

// Unwrap makes it NotFound.
func (r *Rotated) Unwrap() error { return NotFound }

// Cause is why a context of running work ended. It is itself an error, so that a tool reads it with
// context.Cause and tells the causes apart by value, never by text (TL4, ER1).
type Cause string

// The causes that end running work.
const (
	CauseCanceled   Cause = "canceled"          // somebody asked for it: a user, a host, the system
	CauseInterrupt  Cause = "interrupted"       // the turn was interrupted; foreground calls only
	CauseDeadline   Cause = "deadline exceeded" // the hard deadline passed (LN4)
	CauseStall      Cause = "stalled"           // no sign of life for the stall timeout (LN4)
	CauseShutdown   Cause = "shutting down"     // the runtime stops; the work is left as it is (RC11)
	CauseSuperseded Cause = "superseded"        // another attempt or owner has the work (TK6)
)

// Error makes Cause an error; its text is the cause's name.
func (c Cause) Error() string { return string(c) }

// CauseOf returns why ctx ended. It is empty while ctx lives and when the cause is not one of ours.
func CauseOf(ctx context.Context) Cause {
	cause, _ := context.Cause(ctx).(Cause)
	return cause
}
