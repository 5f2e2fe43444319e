//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dev

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// tryLock takes the exclusive lock of a file without waiting. False: another process has it.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// isOwn reports whether a file belongs to the user of this process.
func isOwn(about fs.FileInfo) bool {
	stat, ok := about.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
