//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/perdure/perdure"
)

// flock acquires the exclusive lock without waiting.
func flock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return errHeld
	case err != nil:
		return fmt.Errorf("%w: lock %s: %w", perdure.Storage, file.Name(), err)
	}
	return nil
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
