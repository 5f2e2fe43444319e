//go:build !(darwin || linux)

package main

import "errors"

// freeBytes cannot tell here.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
