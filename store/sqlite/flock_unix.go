//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/perdure/perdure"
)

// flock acquires the exclusive lock without waiting for another owner. A command that looks whether
// a directory is in use holds the shared lock for an instant; flock lets it finish.
func flock(file *os.File) error {
	for until := time.Now().Add(lookGrace); ; time.Sleep(forkPause) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			if owned(file) || time.Now().After(until) {
				return errHeld
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: lock %s: %w", perdure.Storage, file.Name(), err)
		}
		return nil
	}
}

// owned reports whether a lock that could not be acquired is exclusive, not shared.
func owned(file *os.File) bool {
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		return true
	}
	return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) != nil
}

// unflock releases the lock explicitly. Closing the descriptor is not enough: a forked child that
// has not called exec yet shares its file description, and would keep the lock.
func unflock(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_UN); err != nil {
		return fmt.Errorf("%w: unlock %s: %w", perdure.Storage, file.Name(), err)
	}
	return nil
}

// dead reports whether no process has the id pid.
func dead(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
