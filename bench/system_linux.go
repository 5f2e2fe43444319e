package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// syncFile syncs the content of a file, without its times where possible.
func syncFile(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// fileSystem returns the name of a folder's file system.
func fileSystem(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "unknown file system"
	}
	names := map[int64]string{
		0xEF53: "ext4", 0x9123683E: "btrfs", 0x58465342: "xfs", 0x01021994: "tmpfs", 0x794c7630: "overlayfs",
		0x2FC12FC1: "zfs", 0x6969: "nfs",
	}
	if name, ok := names[int64(st.Type)]; ok { //nolint:unconvert // its type differs between architectures
		return name
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// residentBytes returns the resident memory of this process; 0: unknown.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// cpuTime returns the CPU time of this process; 0: unknown.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// groupOfItsOwn starts a process in a new process group.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// killGroup sends a signal to a process group.
func killGroup(pid int, signal syscall.Signal) error { return syscall.Kill(-pid, signal) }

// runs reports whether a process exists and is not a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, behind, found := strings.Cut(string(stat), ") ") // after the program's name, which contains no parentheses here
	return found && !strings.HasPrefix(behind, "Z") && !strings.HasPrefix(behind, "X")
}
