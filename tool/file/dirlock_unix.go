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

// openDirectory is how a directory is opened: whatever else stands there is refused unopened, so nobody waits for the
// other end of a FIFO.
const openDirectory = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_DIRECTORY

const (
	lockPatience = 10 * time.Second     // for others to finish their change
	lockPause    = 2 * time.Millisecond // between two looks; the host wakes nobody who must not wait for ever
)

// lockFolder locks a folder against the changes of others, in this process and in others, until it is unlocked. The host
// drops the lock of a process that dies. Where a host has no such locks there is none, and no error.
// Unavailable: somebody held it all the time.
func lockFolder(ctx context.Context, folder *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockPatience,
		fmt.Errorf("%w: another program keeps the folder locked", perdure.Unavailable))
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

// unlockFolder takes the lock away. A folder that was closed meanwhile has none.
func unlockFolder(folder *os.File) { _ = flock(folder, syscall.LOCK_UN) }

func flock(folder *os.File, how int) error {
	raw, err := folder.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) { locked = syscall.Flock(int(fd), how) }); err != nil {
		return err
	}
	return locked
}
