package mcptool

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfter: seconds and dates are understood, and the wait is at most an hour.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "7": 7 * time.Second, "99999999": time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0, now.AddDate(1, 0, 0).Format(http.TimeFormat): time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestJitter: pauses are longer than asked for, never shorter, and those of two calls differ.
func TestJitter(t *testing.T) {
	t.Parallel()
	same := 0
	for poll := range 200 {
		a, b := jitter("a", poll), jitter("b", poll)
		if a >= maxJitter || b >= maxJitter {
			t.Errorf("poll %d: %d, %d", poll, a, b)
		}
		if a == b {
			same++
		}
	}
	if same > 20 {
		t.Errorf("%d of 200 pauses of two calls are the same", same)
	}
}
