//go:build soak

package mcpserver_test

import (
	"testing"

	"github.com/perdure/perdure/internal/soak"
)

// TestR15ReissuesSoak is TestR15Reissues with more calls.
func TestR15ReissuesSoak(t *testing.T) {
	t.Parallel()
	reissues(t, soak.Count(t, "PERDURE_MCP_REISSUES", 300, 10_000))
}
