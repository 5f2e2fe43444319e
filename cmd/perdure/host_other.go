//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import (
	"errors"
	"os"
	"path/filepath"
)

// lockHeld cannot tell here.
func lockHeld(name string) (bool, error) {
	if _, err := os.Stat(name); err != nil {
		return false, err
	}
	return false, errors.ErrUnsupported
}

// fileID names a file by its path, since these systems do not say more here.
func fileID(path string, _ os.FileInfo) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
