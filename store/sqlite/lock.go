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

// LockName is the name of the file in a data directory whose lock the process has that works there.
const LockName = "lock"

// A process that is killed while it starts another one leaves the lock, for a moment, with the child that has not become
// its program yet. Whoever comes next looks again so often, if the holder that is named is dead.
const (
	heirTime  = 2 * time.Second
	heirPause = 5 * time.Millisecond
	maxHolder = 64 << 10 // bytes of what the file says of its holder
)

// errHeld says that another descriptor has the lock.
var errHeld = errors.New("held")

// dirLock is the exclusive lock on a data directory. It ends with its last descriptor, which is
// close-on-exec: when the process dies, it is free, whatever children live on (see heirTime).
type dirLock struct {
	file *os.File
}

// holder is what the lock file says of who holds it. It is for people; the lock itself is the kernel's.
type holder struct {
	PID       int       `json:"pid"`
	Host      string    `json:"host"`
	StartedAt time.Time `json:"started_at"`
	Program   string    `json:"program"`
}

// lockDir takes the lock and writes who has it. Conflict: somebody else has it.
func lockDir(dir string, now time.Time, program string) (*dirLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: data directory %s cannot be written: make it writable, or use --data with another directory: %w",
			perdure.Storage, dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: lock data directory %s: %w", perdure.Storage, dir, err)
	}
	err = flock(file)
	for until := time.Now().Add(heirTime); errors.Is(err, errHeld) && orphaned(file) && time.Now().Before(until); err = flock(file) {
		time.Sleep(heirPause)
	}
	if errors.Is(err, errHeld) {
		err = fmt.Errorf("%w: data directory %s is held by %s; stop it, or use --data with another directory",
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

// release empties the file and gives the lock back. The file stays: to remove it would let two processes
// hold two files of one name.
func (l *dirLock) release() error {
	return errors.Join(l.file.Truncate(0), unflock(l.file), l.file.Close())
}

func writeHolder(file *os.File, now time.Time, program string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, StartedAt: now, Program: program})
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

// holderOf reads who holds the lock, as far as the file tells: it is empty for a moment after the lock was taken.
func holderOf(file *os.File) (h holder, err error) {
	err = json.NewDecoder(io.NewSectionReader(file, 0, maxHolder)).Decode(&h)
	return h, err
}

// orphaned reports whether the process that is named as the holder is dead, on this machine.
func orphaned(file *os.File) bool {
	h, err := holderOf(file)
	host, unnamed := os.Hostname()
	return err == nil && unnamed == nil && h.Host == host && h.PID > 0 && dead(h.PID)
}

// readHolder names the holder.
func readHolder(file *os.File) string {
	h, err := holderOf(file)
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d (%s on %s, since %s)", h.PID, h.Program, h.Host, h.StartedAt.Format(time.RFC3339))
}
