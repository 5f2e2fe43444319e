//go:build !(darwin || linux)

package app

import "errors"

// freeBytes is not supported on this system.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
