package mcptool

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// hasUnread reports whether the reader of a pipe has left text in it. A server that is still
// starting has read nothing.
func hasUnread(pipe io.Writer) bool {
	file, ok := pipe.(*os.File)
	if !ok {
		return false
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	var n int32
	err = conn.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))) // FIONREAD; after an error n is 0
	})
	return err == nil && n > 0
}
