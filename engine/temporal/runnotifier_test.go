package temporal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestRunNotifier: Temporal is notified of a queued run once in a while, and again where that
// failed, or where the run waits under another grant.
func TestRunNotifier(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	now, failing := time.Now(), ""
	u := &runNotifier{now: func() time.Time { return now }, runs: map[notice]time.Time{}, start: func(_ context.Context, w WaitingRun) error {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, string(w.ID))
		if string(w.ID) == failing {
			return errors.New("refused")
		}
		return nil
	}}
	tell := func(runs ...WaitingRun) ([]string, error) {
		sent = nil
		err := u.all(t.Context(), runs)
		slices.Sort(sent)
		return sent, err
	}
	a, b := WaitingRun{ID: "a"}, WaitingRun{ID: "b"}

	failing = "b"
	if got, err := tell(a, b); !slices.Equal(got, []string{"a", "b"}) || err == nil {
		t.Errorf("the first time: %v, %v", got, err)
	}
	failing = ""
	if got, err := tell(a, b); !slices.Equal(got, []string{"b"}) || err != nil {
		t.Errorf("after an error of b: %v, %v", got, err)
	}
	if got, err := tell(a, b); len(got) != 0 || err != nil {
		t.Errorf("at once again: %v, %v", got, err)
	}
	a.Grant = 1
	if got, err := tell(a, b); !slices.Equal(got, []string{"a"}) || err != nil {
		t.Errorf("of another grant: %v, %v", got, err)
	}
	now = now.Add(notifyAgain)
	if got, err := tell(a, b); !slices.Equal(got, []string{"a", "b"}) || err != nil {
		t.Errorf("later: %v, %v", got, err)
	}
}
