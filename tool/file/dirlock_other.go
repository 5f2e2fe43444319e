//go:build !unix

package file

import (
	"context"
	"os"
)

// openDirectory is how a directory is opened. What is none cannot be read as one.
const openDirectory = os.O_RDONLY

// lockFolder does nothing where a host has no locks on folders: changes are serialised among the users of one Dir.
func lockFolder(context.Context, *os.File) error { return nil }

func unlockFolder(*os.File) {}
