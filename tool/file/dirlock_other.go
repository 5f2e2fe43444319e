//go:build !unix

package file

import (
	"context"
	"os"
)

// openDirectory are the flags for opening a directory. Opening anything else succeeds, but it
// cannot be read as a directory.
const openDirectory = os.O_RDONLY

// lockFolder does nothing on hosts without folder locks: changes are serialised only among the
// users of one Dir.
func lockFolder(context.Context, *os.File) error { return nil }

func unlockFolder(*os.File) {}
