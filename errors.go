package perdure

import (
	"context"
	"fmt"
)

// Kind is a kind of error. It is itself an error, so a caller writes errors.Is(err,
// perdure.NotFound). Adapters turn the errors of their drivers into kinds, and each API (HTTP, MCP,
// command line) maps a kind to its own codes in one place.
type Kind string

// The kinds of error. An error without a kind is internal.
const (
	NotFound       Kind = "not found"       // it does not exist, or it belongs to another principal
	Conflict       Kind = "conflict"        // an existing id, a failed compare-and-set or a live claim
	Lost           Kind = "lost"            // the writer is no longer the owner; it must write nothing more and stop
	Limit          Kind = "limit"           // a limit is reached
	Unavailable    Kind = "unavailable"     // not possible now; try again later
	UnknownOutcome Kind = "unknown outcome" // the effect may or may not have happened
	Storage        Kind = "storage"         // the store can no longer guarantee durability
	Invalid        Kind = "invalid"         // the input is wrong; sending it again cannot succeed
	Denied         Kind = "denied"          // the principal is known and lacks the permission
)

// Error returns the name of the kind.
func (k Kind) Error() string { return string(k) }

// LogRotated reports an offset in a task's log whose output is not stored. A log keeps the
// beginning and the end of its output; Offset is in the gap between them. The kind is NotFound.
type LogRotated struct {
	Offset int64 // the offset that was read
	First  int64 // the first stored byte after the gap
}

// Error names the offset at which to continue.
func (r *LogRotated) Error() string {
	return fmt.Sprintf("the log was rotated because it exceeded its size limit: nothing from byte %[1]d "+
		"to byte %[2]d is stored. Continue reading at offset %[2]d", r.Offset, r.First)
}

// Unwrap returns NotFound.
func (r *LogRotated) Unwrap() error { return NotFound }

// Cause is why the context of running work ended. It is itself an error: a tool reads it with
// context.Cause and tells the causes apart by value, never by text.
type Cause string

// The causes that end running work.
const (
	CauseCanceled   Cause = "canceled"          // requested by a user, a host or the system
	CauseInterrupt  Cause = "interrupted"       // the turn was interrupted; foreground calls only
	CauseDeadline   Cause = "deadline exceeded" // the deadline passed
	CauseStall      Cause = "stalled"           // no output or progress for the stall timeout
	CauseShutdown   Cause = "shutting down"     // the engine stops; the work is left for its next start
	CauseSuperseded Cause = "superseded"        // another attempt or owner has the work
)

// Error returns the name of the cause.
func (c Cause) Error() string { return string(c) }

// CauseOf returns why ctx ended. It is empty while ctx has not ended, or if the cause is not a
// Cause.
func CauseOf(ctx context.Context) Cause {
	cause, _ := context.Cause(ctx).(Cause)
	return cause
}
