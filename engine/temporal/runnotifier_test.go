package temporal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
)

// TestRunNotifier: Temporal is notified of a queued run once in a while, and again where that
// failed, or where the run waits under another grant. What was left out is looked at once more.
func TestRunNotifier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent []string
		failing, planned := "", 0
		n := newRunNotifier(starter{})
		n.start = func(_ context.Context, w WaitingRun) error {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, string(w.ID))
			if string(w.ID) == failing {
				return errors.New("refused")
			}
			return nil
		}
		look := func(runs ...WaitingRun) ([]string, error) {
			sent = nil
			due := func(context.Context, perdure.SessionID) ([]WaitingRun, error) { return runs, nil }
			err := n.look(t.Context(), topic{runs: true}, due, func(topic) { planned++ })
			slices.Sort(sent)
			return sent, err
		}
		a, b := WaitingRun{ID: "a"}, WaitingRun{ID: "b"}

		failing = "b"
		if got, err := look(a, b); !slices.Equal(got, []string{"a", "b"}) || err == nil {
			t.Errorf("the first time: %v, %v", got, err)
		}
		failing = ""
		if got, err := look(a, b); !slices.Equal(got, []string{"b"}) || err != nil {
			t.Errorf("after an error of b: %v, %v", got, err)
		}
		if got, err := look(a, b); len(got) != 0 || err != nil {
			t.Errorf("at once again: %v, %v", got, err)
		}
		a.Grant = 1
		if got, err := look(a, b); !slices.Equal(got, []string{"a"}) || err != nil {
			t.Errorf("of another grant: %v, %v", got, err)
		}
		<-time.After(notifyAgain)
		synctest.Wait()
		if planned != 1 {
			t.Errorf("%d looks follow what was left out, want one", planned)
		}
		if got, err := look(a, b); !slices.Equal(got, []string{"a", "b"}) || err != nil {
			t.Errorf("later: %v, %v", got, err)
		}
		<-time.After(2 * notifyAgain)
		synctest.Wait()
		if planned != 1 {
			t.Errorf("%d looks, although nothing was left out", planned)
		}
	})
}
