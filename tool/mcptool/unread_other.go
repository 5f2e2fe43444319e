//go:build !linux

package mcptool

import "io"

// hasUnread reports whether the reader of a pipe has left text in it. It is not known on this
// system.
func hasUnread(io.Writer) bool { return false }
