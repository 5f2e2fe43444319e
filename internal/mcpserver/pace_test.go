package mcpserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestM08Pace: a client that keeps to its interval is never delayed, one that does not is answered
// at most half an interval later, and the memory for that is bounded.
func TestM08Pace(t *testing.T) {
	t.Parallel()
	var p pollLimiter
	now, key := time.Unix(0, 0), perdure.CallKey{Session: "s", Call: "c"}
	for range 1000 {
		if held := p.delayFor(key, now, time.Second); held != 0 {
			t.Fatalf("held for %v", held)
		}
		now = now.Add(time.Second)
	}
	free, held := 0, 0
	for range 1000 { // ten times faster than asked for
		switch d := p.delayFor(key, now, time.Second); {
		case d == 0:
			free++
		case d > 500*time.Millisecond:
			t.Fatalf("held for %v", d)
		default:
			held++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if free < pollBurst || free > 250 || held == 0 {
		t.Errorf("%d of 1000 polls were free, %d held", free, held)
	}
	for i := range 3 * maxPolledTasks {
		p.delayFor(perdure.CallKey{Session: "s", Call: perdure.CallID(fmt.Sprint(i))}, now, time.Second)
	}
	if n := len(p.tasks); n > maxPolledTasks {
		t.Errorf("%d tasks are remembered", n)
	}
}
