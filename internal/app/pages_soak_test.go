//go:build linux && soak

package app

import (
	"slices"
	"strings"
	"testing"
)

// TestPagesSoak runs the pages whose commands build and measure programs.
func TestPagesSoak(t *testing.T) {
	t.Parallel()
	playPages(t, func(name string) bool { return slices.Contains(strings.Fields(measured), name) })
}
