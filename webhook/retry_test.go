package webhook_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/webhook"
)

// TestDelay: whatever the seed, the pauses grow, end after MaxAttempts, and take 19 to 24 hours
// together; the same seed has the same.
func TestDelay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.String().Draw(t, "seed")
		var total, last time.Duration
		for n := 1; n < webhook.MaxAttempts(); n++ {
			d, more := webhook.Delay(n, seed)
			if again, _ := webhook.Delay(n, seed); !more || d <= last || again != d {
				t.Fatalf("after try %d: %s, then %s, %t; the one before was %s", n, d, again, more, last)
			}
			last, total = d, total+d
		}
		if total > 24*time.Hour || total < 19*time.Hour {
			t.Fatalf("the pauses take %s", total)
		}
		for _, n := range []int{-1, 0, webhook.MaxAttempts(), webhook.MaxAttempts() + 1} {
			if d, more := webhook.Delay(n, seed); more || d != 0 {
				t.Fatalf("after try %d: %s, %t", n, d, more)
			}
		}
	})
}

// TestDelaySpreads: different seeds do not come back together.
func TestDelaySpreads(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for i := range 100 {
		d, _ := webhook.Delay(6, time.Duration(i).String())
		seen[d/time.Minute] = true
	}
	if len(seen) < 8 {
		t.Errorf("100 pauses of up to an hour fall into %d minutes", len(seen))
	}
}
