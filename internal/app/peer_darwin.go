package app

import "syscall"

// The socket option for the process at the other end, from sys/un.h.
const (
	solLocal     = 0
	localPeerPID = 2
)

// peerPID returns the process at the other end of a connected socket.
func peerPID(fd int) (int, error) { return syscall.GetsockoptInt(fd, solLocal, localPeerPID) }
