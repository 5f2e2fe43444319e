//go:build !(linux || darwin)

package app

import "errors"

// peerPID is not supported on this system.
func peerPID(int) (int, error) { return 0, errors.ErrUnsupported }
