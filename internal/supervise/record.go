package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// version is the newest version of the files that this code writes and reads. A newer binary reads
// all older versions.
const version = 1

// confinedVersion is the version of a command file with a sandbox: a program that does not know
// sandboxes must not run it.
const confinedVersion = 2

// Record says which processes a run consists of. A process is ours only if host, boot, pid
// namespace, pid and start time are all equal (RC20).
type Record struct {
	Version      int    `json:"version"`
	Host         string `json:"host"`
	BootID       string `json:"boot_id"`
	PIDNamespace string `json:"pid_namespace"`
	// The supervisor, which is also the session leader of its children.
	PID              int       `json:"pid"`
	StartTime        uint64    `json:"start_time"`         // of the supervisor, in clock ticks since boot
	CommandPID       int       `json:"command_pid"`        // also its process group; zero until it runs
	CommandStartTime uint64    `json:"command_start_time"` // in clock ticks since boot
	Program          string    `json:"program"`            // the first argument, for people
	StartedAt        time.Time `json:"started_at"`
	Profile          string    `json:"profile,omitempty"` // of the sandbox; empty: none
	// The parts that the kernel enforces, in words; empty until the command runs.
	Enforced []string `json:"enforced,omitempty"`
}

// Exit says how a run ended.
type Exit struct {
	Version int `json:"version"`
	// Code is the exit status; 128 plus Signal if a signal ended the command; 126 or 127 if it
	// could not be executed, and then Error says why.
	Code   int    `json:"code"`
	Signal int    `json:"signal"`          // the signal that ended the command, or zero
	Error  string `json:"error,omitempty"` // why the command was not executed
	// TimedOut reports whether Command.Timeout ended the command.
	TimedOut bool `json:"timed_out"`
	// Limit says which limit of the sandbox the command was killed for; empty: none.
	Limit string `json:"limit,omitempty"`
	// Left are the processes that were still running when the command had ended, and were ended
	// then: at most maxLeft of them, LeftCount says how many there were.
	Left      []LeftProcess `json:"left,omitempty"`
	LeftCount int           `json:"left_count,omitempty"`
	// Profile is what confined the command; empty: nothing. HasView says that it had its own /tmp.
	Profile string `json:"profile,omitempty"`
	HasView bool   `json:"has_view,omitempty"`
	// Cancelled reports whether a stop was requested before the command's first process had ended.
	// The result may be valid nevertheless.
	Cancelled bool      `json:"cancelled"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// OutputBytes is the offset after the last byte of the output. RotatedBytes of it, in the
	// middle, were replaced by later output because of Command.OutputMaxBytes. DroppedBytes came
	// after OutputBytes and were not stored, for the reason in OutputError; in records of
	// supervisors without rotation, because of the limit.
	OutputBytes  int64  `json:"output_bytes"`
	RotatedBytes int64  `json:"rotated_bytes,omitempty"`
	DroppedBytes int64  `json:"dropped_bytes"`
	OutputError  string `json:"output_error,omitempty"`
	// Ends has the end of each stream that was not empty, if some output was not stored.
	Ends []End `json:"ends,omitempty"`
	// CPUMS is the processor time of everything that ran, in milliseconds. PeakBytes is the most
	// memory that one process had; zero: not known.
	CPUMS     int64 `json:"cpu_ms,omitempty"`
	PeakBytes int64 `json:"peak_bytes,omitempty"`
	// TreeGone says that no process of the command was left when this was written. It is true in
	// every exit record.
	TreeGone bool `json:"tree_gone"`
}

// LeftProcess is a process that its command left behind.
type LeftProcess struct {
	PID  int    `json:"pid"`  // as the command saw it
	Name string `json:"name"` // its command line, possibly cut
}

// EndMaxBytes is how much of the end of a stream an exit record keeps.
const EndMaxBytes = 64 << 10

// End is the end of one stream of an output that was not stored completely.
type End struct {
	Stream Stream `json:"stream"`
	Total  int64  `json:"total,omitempty"` // all bytes of the stream; zero: see Dropped
	// Dropped is only set by supervisors that do not know Total: the bytes of the stream after the
	// stored output, including those of Bytes.
	Dropped int64  `json:"dropped,omitempty"`
	Bytes   []byte `json:"bytes"` // the last bytes, at most EndMaxBytes
}

// add adds bytes of the stream.
func (e *End) add(b []byte) {
	e.Total += int64(len(b))
	e.Bytes = append(e.Bytes, b[max(0, len(b)-EndMaxBytes):]...)
	if over := len(e.Bytes) - EndMaxBytes; over > EndMaxBytes {
		e.Bytes = e.Bytes[:copy(e.Bytes, e.Bytes[over:])]
	}
}

// readRecord returns an error of kind fs.ErrNotExist if there is no record, and Corrupt if it is
// damaged.
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
		return Record{}, fmt.Errorf("%w: %s has no valid process", Corrupt, path)
	}
	return rec, nil
}

// readExit returns false if there is no exit record yet.
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
		return Exit{}, false, fmt.Errorf("%w: %s has no valid end", Corrupt, path)
	}
	return e, true, nil
}

func checkVersion(path string, got int) error {
	if got < 1 {
		return fmt.Errorf("%w: %s has no version", Corrupt, path)
	}
	if got > version {
		return fmt.Errorf("%w: %s has version %d, this program supports up to %d: use the newer program", Corrupt, path, got, version)
	}
	return nil
}
