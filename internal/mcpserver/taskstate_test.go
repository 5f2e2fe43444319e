package mcpserver

import (
	"testing"
	"time"
)

// TestM08Interval: a task is to be asked after less and less often, from each second to each five.
func TestM08Interval(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]int64{-time.Hour: 1000, 0: 1000, 10 * time.Second: 1000, 20 * time.Second: 2000, 50 * time.Second: 5000, 24 * time.Hour: 5000} {
		if got := pollInterval(age); got != want {
			t.Errorf("after %s: every %d ms, want %d", age, got, want)
		}
	}
}
