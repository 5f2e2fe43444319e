// Package supervise runs a command under a small process of its own, the supervisor, so that the command outlives
// the runtime that asked for it, and the next runtime finds it again: with its output, byte for byte, and with its
// real exit code.
//
// It imports internal/sandbox, which confines the command where Config.Profile says so, and the standard library. [Local] is the real thing (Linux only);
// supervisetest.World is the fake, and supervisetest.Run the laws that both keep.
//
// The one thing to know: a run is a directory, and one rename in it decides whether the command ever runs (RC20).
//
//	Prepare ─▶ ticket ──supervisor renames──▶ started ─▶ record ─▶ output … ─▶ exit
//	              │
//	              └────recovery renames─────▶ revoked      (never started, never will)
//
// Whoever renames the ticket has won; the other one sees that there is no ticket. All files of the directory:
//
//	ticket, started, revoked   one file, under the name that says what became of it
//	command                    what to run; removed when it has been read, for its environment may hold secrets
//	record                     who the supervisor is: host, boot, pid, start time
//	output                     stdout and stderr in framed chunks, in the order in which they came: the beginning
//	output.OFFSET              what came later, from that byte of the whole on; the oldest gives way to the newest
//	stop                       the request to end, which a lost signal cannot lose
//	scratch                    HOME and TMPDIR of a confined command; gone when it has ended
//	exit                       how it ended; written last, when no process of the tree is left
//	supervisor.err             what the supervisor itself had to say: empty, or a bug
package supervise

import (
	"context"
	"time"
)

// Runner starts commands that outlive this process and finds them again after a restart.
//
// A directory names one run, for ever: a second attempt takes a second directory. All methods are safe for concurrent
// use and for use by several processes at once; for one directory, Prepare returns before Start is called.
// Nothing needs closing: a Runner that is dropped leaves its commands running.
type Runner interface {
	// Prepare makes the directory dir with its ticket, both on disk when it returns. Call it before the claim is
	// committed; it starts nothing.
	//
	// Again, while the ticket is there, it does nothing. Spent: the ticket was used or revoked, take another directory.
	// After any other error the directory may or may not be there: call it again.
	Prepare(ctx context.Context, dir string) error

	// Start launches the supervisor of dir and returns when it holds the ticket. The command may not have begun by then,
	// and may have ended; ctx bounds only the waiting, never the command.
	//
	// A program that cannot be executed is no error of Start: the run ends with an Exit that says so.
	// NotStarted: the command did not run and never will in dir. Spent: it was started before; Find has it.
	// After any other error it may or may not run: ask Find, which settles it.
	Start(ctx context.Context, dir string, c Command) (Run, error)

	// Find says what remains of dir. A ticket still unused is revoked, so that the answer stays true; what provably
	// belonged to a run that is Gone is killed. Running it twice gives the same answer, or a later one.
	//
	// Run is nil unless the answer is Alive or Ended. Corrupt: a file of dir cannot be believed, and the error names it.
	Find(ctx context.Context, dir string) (Remains, Run, error)

	// List tells of every run directory under root, at any depth, in the order of their names. It revokes and kills
	// nothing. What is wrong with one run stands in its Found, not in the error; a missing root is an empty list.
	List(ctx context.Context, root string) ([]Found, error)

	// Remove makes dir Absent, with its output and all else that stands in it. A ticket still unused is revoked first, and
	// what is Gone is dead when it is removed. A directory that is not there is removed already.
	//
	// Running: the command lives, and all stays; Stop ends it. Corrupt: whether it lives cannot be known, and all stays.
	// After any other error some of it may be left: call it again. Whoever calls it uses dir no more, nor any Run of it.
	Remove(ctx context.Context, dir string) error
}

// Run is one command that was started: by this process, or by one before it.
//
// It holds nothing open between calls and needs no closing. Safe for concurrent use.
type Run interface {
	// Follow calls emit for each chunk from the payload byte offset from on (both streams counted together, in the order
	// in which the supervisor read them), waits for more, and returns the exit when the run has ended and emit has seen
	// everything. An offset beyond the end is then an error.
	//
	// What gave way to later output before it was read is left out, and the offset of the next chunk says so. Who cannot
	// keep up with a command is shown its beginning, then some of what it says, and its end.
	//
	// It ends early with ctx's cause, or with emit's error. Corrupt: the output has a hole, and the error names the file
	// and the offset; all emitted before was right. Vanished: the supervisor died without leaving an exit.
	// Following again from the next offset repeats nothing, and misses nothing but what gave way.
	Follow(ctx context.Context, from int64, emit func(Chunk) error) (Exit, error)

	// Stop asks for SIGTERM to the command's process group now, and for SIGKILL to the whole tree after grace (zero or
	// less: at once). It returns nil when no process of the tree is left, also when the run had ended before.
	//
	// The request outlives the caller: it is in a file before the signal is sent. A second Stop can shorten the grace,
	// never lengthen it. It ends early with ctx's cause. Vanished: the supervisor died without leaving an exit; what
	// could be proved to be the command's was killed.
	Stop(ctx context.Context, grace time.Duration) error

	// Record says which processes these are. It is as fresh as the call that returned the Run: CommandPID is zero where
	// the command was not up yet.
	Record() Record
}

// Remains is what Find finds in a run directory. The zero value means nothing.
type Remains int

// What remains of a run.
const (
	Absent   Remains = iota + 1 // no such run: nothing was prepared
	Prepared                    // the ticket waits to be used; only List answers this, Find revokes it
	Revoked                     // the command never started and never will
	Alive                       // the supervisor lives: follow it
	Ended                       // there is an exit record: follow it to get output and exit
	Gone                        // it was started, nothing of it lives, and how it ended is not known
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

// Found is one run directory as List sees it.
type Found struct {
	Dir     string
	Remains Remains // zero when Err is not nil
	Run     Run     // nil unless Alive or Ended
	Err     error   // why the state is not known; of kind Corrupt where a file is broken
}

// Stream says where a chunk of output came from.
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
	Stream Stream    // where it was written
	At     time.Time // when the supervisor read it, to the microsecond
	Bytes  []byte    // never empty; valid until emit returns
}
