//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/perdure/perdure"
)

// openDirectory are the flags for opening a directory. Anything else is refused without being
// opened, so that a FIFO does not block.
const openDirectory = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_DIRECTORY

const (
	lockPatience = 10 * time.Second     // how long to wait for changes of others
	lockPause    = 2 * time.Millisecond // polling interval; flock cannot wait with a timeout
)

// lockFolder locks a folder against changes of others, in this process and in other processes,
// until it is unlocked. The host releases the lock of a process that exits. On hosts without such
// locks it does nothing. Unavailable: the lock was held for too long.
func lockFolder(ctx context.Context, folder *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockPatience,
		fmt.Errorf("%w: the folder is locked by another program", perdure.Unavailable))
	defer cancel()
	for {
		switch err := flock(folder, syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil, errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP),
			errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EBADF):
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("lock the folder: %w", err)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unlockFolder releases the lock. Closing the folder released it, too.
func unlockFolder(folder *os.File) { _ = flock(folder, syscall.LOCK_UN) }

func flock(folder *os.File, operation int) error {
	raw, err := folder.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) { locked = syscall.Flock(int(fd), operation) }); err != nil {
		return err
	}
	return locked
}
