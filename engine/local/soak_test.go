//go:build soak

package local_test

import (
	"testing"

	"github.com/perdure/perdure/internal/soak"
)

// TestLaneStormSoak is TestLaneStorm with more steps.
func TestLaneStormSoak(t *testing.T) {
	t.Parallel()
	playLaneStorm(t, uint64(soak.Count(t, "LANES_STEPS", 20_000, 1_000_000)))
}

// TestStormSoak is TestStorm with more programs of each kind.
func TestStormSoak(t *testing.T) {
	t.Parallel()
	playStorms(t, soak.Count(t, "STORMS", 12, 1000))
}

// TestR12PausedWorkerSoak is TestR12PausedWorker with more rounds.
func TestR12PausedWorkerSoak(t *testing.T) {
	t.Parallel()
	pausedWorkers(t, soak.Count(t, "LEASES", 60, 10_000))
}

// TestR12ThreeWorkersSoak is TestR12ThreeWorkers with more rounds.
func TestR12ThreeWorkersSoak(t *testing.T) {
	t.Parallel()
	threeWorkers(t, soak.Count(t, "LEASES", 9, 10_000))
}

// TestH15BulkSoak is TestH15Bulk with a hundred sessions.
func TestH15BulkSoak(t *testing.T) {
	t.Parallel()
	bulkCancel(t, 100)
}
