//go:build !linux

package storm

import "github.com/perdure/perdure"

// noDisk says why the fault disk is not possible; empty: it may be.
func noDisk() string { return "a small disk is mounted for it, which is built for Linux only" }

func mountSmall(string, int) error { return perdure.Unavailable }
func unmount(string) error         { return perdure.Unavailable }
func isFull(error) bool            { return false }
