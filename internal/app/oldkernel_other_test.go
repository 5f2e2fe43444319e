//go:build !linux

package app

import "os"

// oldKernel exists only on Linux.
func oldKernel() { os.Exit(125) }
