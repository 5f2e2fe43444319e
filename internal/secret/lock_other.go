//go:build !unix

package secret

import "io/fs"

// hasModes reports whether file modes restrict who may read a file on this system.
const hasModes = false

func inodeOf(fs.FileInfo) uint64 { return 0 }

// lock does nothing here: only one process at a time may change a keyring.
func lock(string) (unlock func(), err error) { return func() {}, nil }
