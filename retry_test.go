package perdure_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// TestRetryDelay is TN21: one second doubling to a minute, ± 10 %, or what the provider asks for up
// to ten minutes.
func TestRetryDelay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(-3, 100).Draw(t, "attempt")
		seed := rapid.String().Draw(t, "seed")
		base := time.Minute
		if attempt <= 6 {
			base = time.Second << max(attempt-1, 0)
		}

		got := perdure.RetryDelay(attempt, 0, seed)

		if got < base*9/10 || got > base*11/10 {
			t.Errorf("attempt %d: got %s, want %s ± 10 %%", attempt, got, base)
		}
		if again := perdure.RetryDelay(attempt, 0, seed); again != got {
			t.Errorf("the same arguments: got %s, then %s", got, again)
		}
		asked := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "asked"))
		if got := perdure.RetryDelay(attempt, asked, seed); got != min(asked, 10*time.Minute) {
			t.Errorf("asked for %s: got %s", asked, got)
		}
	})
}

// TestRetryDelaySpreads wants the jitter to use its whole width, so that many sessions do not come
// back at once.
func TestRetryDelaySpreads(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	low, high := time.Hour, time.Duration(0)
	for i := range 1000 {
		delay := perdure.RetryDelay(1, 0, string(rune(i))+"exec")
		seen[delay] = true
		low, high = min(low, delay), max(high, delay)
	}

	if len(seen) < 100 || low > 920*time.Millisecond || high < 1080*time.Millisecond {
		t.Errorf("1,000 seeds: got %d delays from %s to %s, want a spread over 900 ms to 1.1 s", len(seen), low, high)
	}
}
