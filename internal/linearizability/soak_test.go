//go:build soak

package linearizability

import (
	"testing"

	"github.com/perdure/perdure/internal/soak"
)

// TestR17CallsSoak is TestR17Calls with more and longer histories.
func TestR17CallsSoak(t *testing.T) {
	t.Parallel()
	checkMore(t, calls())
}

// TestR17FilesSoak is TestR17Files with more and longer histories.
func TestR17FilesSoak(t *testing.T) {
	t.Parallel()
	checkMore(t, files())
}

// TestR17SpawnsSoak is TestR17Spawns with more and longer histories.
func TestR17SpawnsSoak(t *testing.T) {
	t.Parallel()
	checkMore(t, spawns())
}

// TestR17TasksSoak is TestR17Tasks with more and longer histories.
func TestR17TasksSoak(t *testing.T) {
	t.Parallel()
	checkMore(t, tasks())
}

// checkMore is check with the counts of the second tier.
func checkMore(t *testing.T, g game) {
	t.Helper()
	check(t, g, soak.Count(t, "LINEAR_HISTORIES", 60, 1000), soak.Count(t, "LINEAR_OPERATIONS", operations, 5000))
}
