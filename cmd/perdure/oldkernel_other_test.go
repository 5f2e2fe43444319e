//go:build !linux

package main

import "os"

// oldKernel exists only on Linux.
func oldKernel() { os.Exit(125) }
