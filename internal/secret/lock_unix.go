//go:build unix

package secret

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/perdure/perdure"
)

// hasModes reports whether file modes restrict who may read a file on this system.
const hasModes = true

func inodeOf(found fs.FileInfo) uint64 {
	if sys, ok := found.Sys().(*syscall.Stat_t); ok {
		return sys.Ino
	}
	return 0
}

// lock keeps other processes from changing the keyring, and waits for them: two changes at once
// could lose a key with all that it sealed. The lock ends with its process; the lock file stays.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, ownerOnly)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	for {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%w: lock %s.lock: %w", perdure.Unavailable, path, err)
	}
	return func() { _ = file.Close() }, nil
}
