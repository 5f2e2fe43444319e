package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
)

// LockName is the name of the lock file in a data directory. The process that uses the directory
// holds its lock.
const LockName = "lock"

// A process that is killed while it starts another one leaves its lock to the forked child for a
// moment, until the child calls exec and the descriptor is closed. If the recorded owner is dead,
// lockDir therefore retries for forkGrace.
const (
	forkGrace = 2 * time.Second
	forkPause = 5 * time.Millisecond
	lookGrace = 5 * time.Second // for which a command that looks at the lock may hold it
	maxHolder = 64 << 10        // bytes read from the lock file
)

// errHeld reports that another descriptor holds the lock.
var errHeld = errors.New("held")

// dirLock is the exclusive lock on a data directory. The kernel releases it when its last
// descriptor is closed. The descriptor is close-on-exec, so the lock is free when the process has
// died, even if its children keep running (see forkGrace).
type dirLock struct {
	file *os.File
}

// Holder is what the lock file says about its owner. The lock itself is the kernel's.
type Holder struct {
	PID       int       `json:"pid"`
	Host      string    `json:"host"`
	StartedAt time.Time `json:"started_at"`
	Program   string    `json:"program"`
}

// lockDir acquires the lock and records its owner. Conflict: another process holds it.
func lockDir(dir string, now time.Time, program string) (*dirLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: data directory %s is not writable: make it writable, or use another "+
			"directory: %w",
			perdure.Storage, dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: lock data directory %s: %w", perdure.Storage, dir, err)
	}
	err = flock(file)
	for until := time.Now().Add(forkGrace); errors.Is(err, errHeld) && orphaned(file) &&
		time.Now().Before(until); err = flock(file) {
		time.Sleep(forkPause)
	}
	if errors.Is(err, errHeld) {
		err = fmt.Errorf("%w: data directory %s is held by %s; stop it, or use another directory",
			perdure.Conflict, dir, readHolder(file))
	}
	if err == nil {
		err = writeHolder(file, now, program)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &dirLock{file: file}, nil
}

// release empties the file and releases the lock. The file stays: if it were removed, two processes
// could each lock a different file of that name.
func (l *dirLock) release() error {
	return errors.Join(l.file.Truncate(0), unflock(l.file), l.file.Close())
}

func writeHolder(file *os.File, now time.Time, program string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, StartedAt: now, Program: program})
	if err == nil {
		_, err = file.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = file.Truncate(int64(len(text)) + 1)
	}
	if err != nil {
		return fmt.Errorf("%w: write %s: %w", perdure.Storage, file.Name(), err)
	}
	return nil
}

// holderOf reads the owner of the lock. It returns an error while the file is empty, which is the
// case for a moment after the lock was acquired.
func holderOf(file *os.File) (h Holder, err error) {
	err = json.NewDecoder(io.NewSectionReader(file, 0, maxHolder)).Decode(&h)
	return h, err
}

// ReadHolder returns what the lock file of a data directory says about its owner. The owner may
// have been killed since: only the lock tells. Any error means that nothing is known.
func ReadHolder(dir string) (Holder, error) {
	file, err := os.Open(filepath.Join(dir, LockName))
	if err != nil {
		return Holder{}, err
	}
	defer file.Close()
	return holderOf(file)
}

// orphaned reports whether the recorded owner was a process on this machine and is dead.
func orphaned(file *os.File) bool {
	h, err := holderOf(file)
	host, unnamed := os.Hostname()
	return err == nil && unnamed == nil && h.Host == host && h.PID > 0 && dead(h.PID)
}

// readHolder describes the owner of the lock.
func readHolder(file *os.File) string {
	h, err := holderOf(file)
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d (%s on %s, since %s)", h.PID, h.Program, h.Host, h.StartedAt.Format(time.RFC3339))
}
