// Package supervise runs each command under a small process of its own, the supervisor, so that the
// command outlives the runtime that started it. The next runtime finds the command again, with its
// output, byte for byte, and its real exit code.
//
// It may import internal/sandbox, which confines the command according to Config.Profile, and the
// standard library. [Local] is the real implementation (Linux only); supervisetest.World is the
// fake, and supervisetest.Run tests both.
//
// The one thing to know: a run is a directory, and a single rename in it decides whether the
// command ever runs (RC20).
//
//	Prepare ─▶ ticket ──supervisor renames──▶ started ─▶ record ─▶ output … ─▶ exit
//	              │
//	              └────recovery renames─────▶ revoked      (never started, never will)
//
// Only one of the two renames can succeed; the other process finds no ticket. The files of the
// directory:
//
//	ticket, started, revoked   one file, whose name says what became of it
//	command                    what to run; removed once read, since its environment may hold secrets
//	record                     the supervisor's identity: host, boot, pid, start time
//	output                     stdout and stderr in framed chunks, in order of arrival: the beginning
//	output.OFFSET              later output from that offset on; the newest replaces the oldest
//	stop                       the request to stop, which survives a lost signal
//	scratch                    HOME and TMPDIR of a confined command without Home; removed at its end
//	exit                       how the run ended; written last, when no process of the tree is left
//	supervisor.err             stderr of the supervisor itself: empty, unless there is a bug
package supervise

import (
	"context"
	"time"
)

// Runner starts commands that outlive this process, and finds them again after a restart.
//
// A directory identifies one run for ever: a second attempt needs a second directory. All methods
// are safe for concurrent use, also by several processes at once; but for one directory, Prepare
// must return before Start is called. A Runner needs no closing: if it is dropped, its commands
// keep running.
type Runner interface {
	// Prepare creates the directory dir with its ticket, both durable when it returns. Call it
	// before the claim is committed; it starts nothing.
	//
	// It may be called again while the ticket is unused. Spent: the ticket was used or revoked; use
	// a new directory. After any other error the directory may or may not exist: call Prepare
	// again.
	Prepare(ctx context.Context, dir string) error

	// Start launches the supervisor of dir and returns when the supervisor has the ticket. By then
	// the command may not have started yet, or may have ended. ctx limits only the waiting, never
	// the command.
	//
	// A program that cannot be executed is not an error of Start: the run ends with an Exit that
	// says so. NotStarted: the command did not run and never will in dir. Spent: it was started
	// before; use Find. After any other error it may or may not be running: Find decides.
	Start(ctx context.Context, dir string, c Command) (Run, error)

	// Find returns what remains of dir. It revokes an unused ticket, so that the answer stays
	// valid, and kills what provably belonged to a run that is Gone. A second call gives the same
	// answer, or a later one.
	//
	// The Run is nil unless the answer is Alive or Ended. Corrupt: a file of dir is damaged; the
	// error names it.
	Find(ctx context.Context, dir string) (Remains, Run, error)

	// List returns every run directory below root, at any depth, sorted by name. It revokes and
	// kills nothing. A problem of one run is in its Found, not in the error; a missing root is an
	// empty list.
	List(ctx context.Context, root string) ([]Found, error)

	// Inspect returns what is known of dir now. It revokes, kills and changes nothing. Corrupt: a
	// file of dir is damaged; the error names it.
	Inspect(ctx context.Context, dir string) (Inspection, error)

	// Remove makes dir Absent, with its output and everything else in it. It first revokes an
	// unused ticket, and kills what remains of a run that is Gone. A missing directory is not an
	// error.
	//
	// Running: the command is running, and nothing is removed; use Stop first. Corrupt: it is
	// unknown whether the command is running, and nothing is removed. After any other error some of
	// it may be left: call Remove again. The caller must not use dir or its Run any more.
	Remove(ctx context.Context, dir string) error
}

// Run is one command that was started by this process or an earlier one.
//
// It keeps nothing open between calls and needs no closing. It is safe for concurrent use.
type Run interface {
	// Follow calls emit for each chunk from the payload offset from on, counting both streams
	// together in the order in which the supervisor read them. It waits for more output, and
	// returns the exit when the run has ended and emit has seen everything. An offset beyond the
	// end is then an error.
	//
	// Output that was replaced by later output before it was read is skipped, which shows in the
	// offset of the next chunk. A follower that cannot keep up sees the beginning, some of the
	// middle, and the end.
	//
	// Follow ends early with ctx's cause, or with emit's error. Corrupt: the output has a gap; the
	// error names the file and the offset, and everything emitted before is right. Vanished: the
	// supervisor died without an exit record. Following again from the next offset repeats nothing,
	// and misses only what was replaced.
	Follow(ctx context.Context, from int64, emit func(Chunk) error) (Exit, error)

	// Stop requests SIGTERM for the whole tree now, and SIGKILL after grace (zero or less:
	// immediately). It returns nil when no process of the tree is left, also if the run had ended
	// before.
	//
	// The request outlives the caller: it is in a file before the signal is sent. A second Stop can
	// shorten the grace, never lengthen it. Stop ends early with ctx's cause. Vanished: the
	// supervisor died without an exit record; everything that provably belonged to the command was
	// killed.
	Stop(ctx context.Context, grace time.Duration) error

	// Record says which processes the run consists of, as of the call that returned the Run:
	// CommandPID is zero if the command was not running yet.
	Record() Record
}

// Remains is the answer of Find. The zero value is invalid.
type Remains int

// The values of Remains.
const (
	Absent   Remains = iota + 1 // no such run: nothing was prepared
	Prepared                    // the ticket is unused; only List returns this, Find revokes it
	Revoked                     // the command never started and never will
	Alive                       // the supervisor is running: follow it
	Ended                       // there is an exit record: Follow returns output and exit
	Gone                        // it was started, nothing of it is running, and how it ended is not known
)

// String returns the name of r in lower case.
func (r Remains) String() string {
	switch r {
	case Absent:
		return "absent"
	case Prepared:
		return "prepared"
	case Revoked:
		return "revoked"
	case Alive:
		return "alive"
	case Ended:
		return "ended"
	case Gone:
		return "gone"
	default:
		return "unknown"
	}
}

// Found is one run directory in the result of List.
type Found struct {
	Dir     string
	Remains Remains // zero when Err is not nil
	Run     Run     // nil unless Alive or Ended
	Err     error   // why the state is unknown; of kind Corrupt if a file is damaged
}

// Stream is the stream that a chunk of output comes from.
type Stream uint8

// The two streams of a command.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String returns "stdout" or "stderr".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	default:
		return "unknown"
	}
}

// Chunk is a piece of output, at most 64 KiB.
type Chunk struct {
	Offset int64     // bytes of both streams before this one
	Stream Stream    // that it was written to
	At     time.Time // when the supervisor read it, to the microsecond
	Bytes  []byte    // never empty; valid until emit returns
}
