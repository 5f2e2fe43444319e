package app

import (
	"syscall"
)

// Constants of Linux that package syscall does not have.
const (
	tcFlush = 0x540b // TCFLSH
	tcInput = 0      // TCIFLUSH
)

// discardInput discards terminal input that nobody has read. It does nothing when stdin is not a
// terminal.
func discardInput() {
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(syscall.Stdin), tcFlush, tcInput)
}
