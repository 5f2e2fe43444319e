//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package app

import (
	"errors"
	"os"
	"path/filepath"
)

// lockHeld is not supported on this system.
func lockHeld(name string) (bool, error) {
	if _, err := os.Stat(name); err != nil {
		return false, err
	}
	return false, errors.ErrUnsupported
}

// fileID identifies a file by its path, since this system offers nothing better.
func fileID(path string, _ os.FileInfo) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
