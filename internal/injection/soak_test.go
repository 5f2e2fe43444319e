//go:build soak

package injection

import (
	"testing"

	"github.com/perdure/perdure/internal/soak"
)

// TestS3InjectionSoak plays more of the scenarios than TestS3Injection, and under SCALE=full all.
func TestS3InjectionSoak(t *testing.T) {
	t.Parallel()
	inject(t, soak.Count(t, "INJECTION_STRIDE", 5, 1))
}
