//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package app

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockHeld reports whether another process has the lock on a file. It takes a shared lock and
// releases it at once.
func lockHeld(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// fileID identifies a file by device and inode.
func fileID(_ string, about os.FileInfo) string {
	stat := about.Sys().(*syscall.Stat_t) // the type that os.Stat returns on all these systems
	return fmt.Sprintf("%d %d", stat.Dev, stat.Ino)
}
