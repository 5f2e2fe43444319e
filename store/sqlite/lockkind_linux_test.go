package sqlite_test

import "testing"

// TestLocksAreChosenAtStart: a program that can open databases locks them by open file description
// before anything in it has used the driver (R30).
func TestLocksAreChosenAtStart(t *testing.T) {
	t.Parallel()

	got := startChild(t, "locks", t.TempDir()).line(t)

	if got != "true" {
		t.Errorf("got locks by open file description: %s, want true", got)
	}
}
