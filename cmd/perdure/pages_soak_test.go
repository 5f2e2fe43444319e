//go:build linux && soak

package main

import (
	"slices"
	"strings"
	"testing"
)

// TestPagesSoak plays the pages whose commands build programs and measure them.
func TestPagesSoak(t *testing.T) {
	t.Parallel()
	playPages(t, func(name string) bool { return slices.Contains(strings.Fields(measured), name) })
}
