//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockHeld reports whether another process has the lock on a file. It asks for a shared one, which it gives
// back at once.
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

// fileID names a file by where the kernel has it.
func fileID(_ string, about os.FileInfo) string {
	stat := about.Sys().(*syscall.Stat_t) // of os.Stat, on each of these systems
	return fmt.Sprintf("%d %d", stat.Dev, stat.Ino)
}
