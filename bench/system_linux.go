package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// syncFile brings a file's content to the disk, without its times where the system can leave them out.
func syncFile(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// fileSystem names the file system of a folder.
func fileSystem(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "unknown file system"
	}
	names := map[int64]string{
		0xEF53: "ext4", 0x9123683E: "btrfs", 0x58465342: "xfs", 0x01021994: "tmpfs", 0x794c7630: "overlayfs", 0x2FC12FC1: "zfs", 0x6969: "nfs",
	}
	if name, ok := names[int64(st.Type)]; ok { //nolint:unconvert // its type differs between architectures
		return name
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// residentBytes is the memory of this process that is in RAM; 0 where the system does not say.
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

// cpuTime is the time that this process has spent on the cores; 0 where the system does not say.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// groupOfItsOwn lets a process begin a group.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// killGroup sends a signal to the group that a process began.
func killGroup(pid int, signal syscall.Signal) error { return syscall.Kill(-pid, signal) }

// runs says whether a process is there and more than a zombie, which only waits for its parent to ask.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, behind, found := strings.Cut(string(stat), ") ") // behind the program's name, which here has no brackets
	return found && !strings.HasPrefix(behind, "Z") && !strings.HasPrefix(behind, "X")
}
