//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// syncFile syncs the content of a file.
func syncFile(f *os.File) error { return f.Sync() }

// fileSystem is implemented on Linux only.
func fileSystem(string) string { return "unknown file system" }

// residentBytes is implemented on Linux only.
func residentBytes() int64 { return 0 }

// cpuTime is implemented on Linux only.
func cpuTime() time.Duration { return 0 }

// groupOfItsOwn is implemented on Linux only.
func groupOfItsOwn() *syscall.SysProcAttr { return nil }

// killGroup is implemented on Linux only.
func killGroup(int, syscall.Signal) error { return errors.ErrUnsupported }

// runs is implemented on Linux only.
func runs(int) bool { return false }
