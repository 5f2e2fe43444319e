//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"fmt"
	"os"
	"runtime"

	"github.com/perdure/perdure"
)

// flock returns an error: without a lock that ends with its process, nothing proves that an earlier
// owner is dead.
func flock(*os.File) error {
	return fmt.Errorf("%w: a data directory needs flock, which %s does not have; run on Linux", perdure.Unavailable,
		runtime.GOOS)
}

// unflock does nothing.
func unflock(*os.File) error { return nil }

// dead reports false: this system offers no way to know whether a process has ended.
func dead(int) bool { return false }
