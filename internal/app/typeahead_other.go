//go:build !linux

package app

// discardInput does nothing on this system: input stays.
func discardInput() {}
