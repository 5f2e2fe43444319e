//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package dev

import (
	"io/fs"
	"os"
)

// tryLock does nothing: without a lock that ends with its process, nothing proves that a process is
// dead.
func tryLock(*os.File) (bool, error) { return false, nil }

// isOwn reports false: no directory of another process is removed on this system.
func isOwn(fs.FileInfo) bool { return false }
