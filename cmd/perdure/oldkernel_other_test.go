//go:build !linux

package main

import "os"

// oldKernel is Linux's.
func oldKernel() { os.Exit(125) }
