package main

import (
	"syscall"
)

// The numbers of Linux, which package syscall does not name.
const (
	tcFlush = 0x540b // TCFLSH
	tcInput = 0      // TCIFLUSH
)

// dropTyped drops what was typed on the terminal and nobody has read. Where stdin is none, nothing happens.
func dropTyped() {
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(syscall.Stdin), tcFlush, tcInput)
}
