//go:build !linux

package chaoscmd

import "github.com/perdure/perdure"

// mountError says why the fault disk is not possible.
func mountError() string { return "it mounts a small disk, which works only on Linux" }

func mountSmall(string, int) error { return perdure.Unavailable }
func unmount(string) error         { return perdure.Unavailable }
func isFull(error) bool            { return false }
