package access_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/internal/access"
)

// TestPace: each key may make a burst of requests, then one per interval; queued ones are admitted
// in order, or time out after the maximum wait.
func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := &access.RateLimiter[string]{Burst: 3, Every: time.Second}
	for left := 2; left >= 0; left-- {
		if wait, got := p.Allow("a", now); wait != 0 || got != left {
			t.Errorf("wait %s, %d left, want %d", wait, got, left)
		}
	}
	if wait, left := p.Allow("a", now); wait != time.Second || left != 0 {
		t.Errorf("wait %s, %d left", wait, left)
	}
	if wait, left := p.Allow("b", now); wait != 0 || left != 2 {
		t.Errorf("another key: wait %s, %d left", wait, left)
	}
	if wait, left := p.Allow("a", now.Add(1500*time.Millisecond)); wait != 0 || left != 0 {
		t.Errorf("later: wait %s, %d left", wait, left)
	}
	q := &access.RateLimiter[string]{Every: time.Second}
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 2500 * time.Millisecond, 2500 * time.Millisecond} {
		if wait := q.Reserve("a", now, 2500*time.Millisecond); wait != want {
			t.Errorf("%d waits %s, want %s", i, wait, want)
		}
	}
	if wait := q.Wait("a", now); wait != 3*time.Second {
		t.Errorf("a request that did not queue is counted: %s", wait)
	}
}
