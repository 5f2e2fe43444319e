package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// version is the newest version of the files that this code writes and reads. A newer binary reads all older ones.
const version = 1

// confinedVersion is that of a command file with a sandbox: a program that knows of none must not run it.
const confinedVersion = 2

// Record says which processes a run consists of. A process is ours only where host, boot, pid namespace, pid and start
// time are all equal (RC20).
type Record struct {
	Version          int       `json:"version"`
	Host             string    `json:"host"`
	BootID           string    `json:"boot_id"`
	PIDNamespace     string    `json:"pid_namespace"`
	PID              int       `json:"pid"`                // the supervisor, which is also the session of its children
	StartTime        uint64    `json:"start_time"`         // of the supervisor, in clock ticks since boot
	CommandPID       int       `json:"command_pid"`        // also its process group; zero until it is up
	CommandStartTime uint64    `json:"command_start_time"` // in clock ticks since boot
	Program          string    `json:"program"`            // the first argument, for people
	StartedAt        time.Time `json:"started_at"`
	Profile          string    `json:"profile,omitempty"`  // of the sandbox; empty: none
	Enforced         []string  `json:"enforced,omitempty"` // what the kernel keeps of it, in words; empty until the command is up
}

// Exit says how a run ended.
type Exit struct {
	Version int `json:"version"`
	// Code is the exit status; 128 plus Signal where a signal ended the command; 126 or 127 where it could not be
	// executed, and then Error says why.
	Code   int    `json:"code"`
	Signal int    `json:"signal"`          // the signal that ended the command, or zero
	Error  string `json:"error,omitempty"` // why the command did not run at all
	// TimedOut: Command.Timeout ended it.
	TimedOut bool `json:"timed_out"`
	// Limit, where it is not empty, says which limit of the sandbox the command was killed for.
	Limit string `json:"limit,omitempty"`
	// Cancelled: a stop was requested before the command's first process had ended. Its result may be real all the same.
	Cancelled bool      `json:"cancelled"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// OutputBytes is where the output ends: the offset behind its last byte. RotatedBytes of it, in the middle, gave way to
	// what came later, because of Command.OutputMaxBytes. DroppedBytes came after that end and were not kept, for the reason
	// in OutputError; or, where a supervisor from before there were rotated bytes wrote this, because of the limit.
	OutputBytes  int64  `json:"output_bytes"`
	RotatedBytes int64  `json:"rotated_bytes,omitempty"`
	DroppedBytes int64  `json:"dropped_bytes"`
	OutputError  string `json:"output_error,omitempty"`
	// Ends tells of each stream that said anything, when something was not kept.
	Ends []End `json:"ends,omitempty"`
	// TreeGone: no process of the command was left when this was written. It is true in every exit record.
	TreeGone bool `json:"tree_gone"`
}

// EndMaxBytes is how much of the end of a stream is known when not all of the output was kept.
const EndMaxBytes = 64 << 10

// End is the end of a stream of an output that was too long to be kept.
type End struct {
	Stream Stream `json:"stream"`
	Total  int64  `json:"total,omitempty"` // bytes that the stream had in all; zero: Dropped says what is known
	// Dropped is for a supervisor from before there was a Total: bytes of the stream behind what the output has, those of
	// Bytes included.
	Dropped int64  `json:"dropped,omitempty"`
	Bytes   []byte `json:"bytes"` // the last of them, at most EndMaxBytes
}

// add takes what the stream says.
func (e *End) add(b []byte) {
	e.Total += int64(len(b))
	e.Bytes = append(e.Bytes, b[max(0, len(b)-EndMaxBytes):]...)
	if over := len(e.Bytes) - EndMaxBytes; over > EndMaxBytes {
		e.Bytes = e.Bytes[:copy(e.Bytes, e.Bytes[over:])]
	}
}

// readRecord returns an error of kind fs.ErrNotExist where there is none, Corrupt where it cannot be believed.
func readRecord(dir string) (Record, error) { return readRecordFile(filepath.Join(dir, recordName)) }

func readRecordFile(path string) (Record, error) {
	var rec Record
	if err := readJSON(path, &rec); err != nil {
		return Record{}, err
	}
	if err := checkVersion(path, rec.Version); err != nil {
		return Record{}, err
	}
	if rec.Host == "" || rec.BootID == "" || rec.PID <= 1 || rec.StartTime == 0 {
		return Record{}, fmt.Errorf("%w: %s names no process", Corrupt, path)
	}
	return rec, nil
}

// readExit returns false where there is no exit record yet.
func readExit(dir string) (Exit, bool, error) {
	path := filepath.Join(dir, exitName)
	var e Exit
	err := readJSON(path, &e)
	if errors.Is(err, fs.ErrNotExist) {
		return Exit{}, false, nil
	}
	if err != nil {
		return Exit{}, false, err
	}
	if err := checkVersion(path, e.Version); err != nil {
		return Exit{}, false, err
	}
	if e.EndedAt.IsZero() || e.OutputBytes < 0 || !e.TreeGone {
		return Exit{}, false, fmt.Errorf("%w: %s tells of no end", Corrupt, path)
	}
	return e, true, nil
}

func checkVersion(path string, got int) error {
	if got < 1 {
		return fmt.Errorf("%w: %s has no version", Corrupt, path)
	}
	if got > version {
		return fmt.Errorf("%w: %s has version %d, this program knows %d: use the newer program", Corrupt, path, got, version)
	}
	return nil
}
