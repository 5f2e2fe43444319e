//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// syncFile brings a file's content to the disk.
func syncFile(f *os.File) error { return f.Sync() }

// fileSystem names the file system of a folder. Only Linux says.
func fileSystem(string) string { return "unknown file system" }

// residentBytes is the memory of this process that is in RAM; 0: only Linux says.
func residentBytes() int64 { return 0 }

// cpuTime is the time that this process has spent on the cores; 0: only Linux says.
func cpuTime() time.Duration { return 0 }

// groupOfItsOwn lets a process begin a group: only Linux measures one.
func groupOfItsOwn() *syscall.SysProcAttr { return nil }

// killGroup sends a signal to the group that a process began: only Linux measures one.
func killGroup(int, syscall.Signal) error { return errors.ErrUnsupported }

// runs says whether a process is there: only Linux says.
func runs(int) bool { return false }
