//go:build soak

package sessionport_test

import (
	"testing"

	"github.com/perdure/perdure/internal/soak"
)

// TestS18CanariesSoak is TestS18Canaries with more secrets.
func TestS18CanariesSoak(t *testing.T) {
	t.Parallel()
	findCanaries(t, soak.Count(t, "PERDURE_CANARIES", 60, 1000))
}
