//go:build !unix

package secret

import "io/fs"

// hasModes says that the mode of a file does not tell who may read it here.
const hasModes = false

func inodeOf(fs.FileInfo) uint64 { return 0 }

// lock does nothing here: one process at a time may change a ring.
func lock(string) (unlock func(), err error) { return func() {}, nil }
