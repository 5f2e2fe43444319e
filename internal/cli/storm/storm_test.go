package storm

import (
	"strings"
	"testing"
)

// TestAgainHidesThePassword: what is printed to repeat a run has no password of a database.
func TestAgainHidesThePassword(t *testing.T) {
	t.Parallel()
	s := Storm{Kills: 3, Sessions: 2, Seed: 1, Faults: []string{"kill"}, Database: "postgres://user:correct-horse@db/name"}

	got := s.again()

	if strings.Contains(got, "correct-horse") || !strings.HasSuffix(got, " --faults kill --database URL") {
		t.Errorf("got %q", got)
	}
}
