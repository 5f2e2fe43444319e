package taskrun

import (
	"slices"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// TestInTurn is BG18: the session with the fewest running tasks comes first; among equals, the one
// that has waited longest; a session without a free slot does not come at all.
func TestInTurn(t *testing.T) {
	t.Parallel()
	e, _ := bed(t, func(c *core.Config) { c.Limits.SlotsPerSession = 3 })
	queued := []store.TaskCount{{Session: "busy", N: 9}, {Session: "first", N: 1}, {Session: "full", N: 1},
		{Session: "second", N: 4}}
	running := []store.TaskCount{{Session: "full", N: 3}, {Session: "busy", N: 2}, {Session: "other", N: 1}}

	got, _ := e.fairOrder(queued, running)

	if want := []perdure.SessionID{"first", "second", "busy"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNextQueuedPassesWhatFailed continues with the next run of the session, and then with another
// session.
func TestNextQueuedPassesWhatFailed(t *testing.T) {
	t.Parallel()
	e, id := bed(t, nil)
	var all []perdure.TaskID
	for _, session := range []perdure.SessionID{id, id, "another"} {
		task := perdure.Task{
			ID: core.NewID[perdure.TaskID](), Session: session, RootSession: session, Tool: "x",
			Spec:  perdure.TaskSpec{Tool: "x", Arguments: []byte(`{}`)},
			State: perdure.TaskQueued, Attempt: 1,
		}
		all = append(all, task.ID)
		err := e.core.Store.InTx(t.Context(), func(tx store.Tx) error {
			_, _, err := tx.Tasks().Create(task)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	passed := map[perdure.TaskID]bool{}
	for _, want := range append(all, "") {
		next, err := e.nextQueued(t.Context(), passed)
		if err != nil || next.ID != want {
			t.Fatalf("after %d were passed: got %q and %v, want %q", len(passed), next.ID, err, want)
		}
		passed[next.ID] = true
	}
}
