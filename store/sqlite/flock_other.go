//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"fmt"
	"os"
	"runtime"

	"github.com/perdure/perdure"
)

// flock refuses: without a lock that ends with the process, nothing proves that the former holder is dead.
func flock(*os.File) error {
	return fmt.Errorf("%w: a data directory needs flock, which %s does not have; run on Linux", perdure.Unavailable, runtime.GOOS)
}

// unflock has nothing to give back.
func unflock(*os.File) error { return nil }

// dead reports whether there is no process of a number any more: nobody can tell.
func dead(int) bool { return false }
