//go:build !linux

package main

import (
	"os"
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
