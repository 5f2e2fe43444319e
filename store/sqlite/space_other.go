//go:build !(darwin || linux)

package sqlite

import "errors"

// space is not supported on this system.
func space(string) (free, whole uint64, err error) { return 0, 0, errors.ErrUnsupported }
