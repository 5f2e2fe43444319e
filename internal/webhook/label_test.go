package webhook_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	hook "github.com/perdure/perdure/webhook"
)

// TestLabels: a webhook gets what happens in sessions that have its labels when that is queued, and
// nothing else.
func TestLabels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.run(b.Sender)
		defer stop()
		made, err := b.Create(context.Background(), hook.Webhook{URL: "https://a.example/hook", Labels: perdure.LabelFilter{"env=prod", "team"}, Owner: "user"})
		if err != nil {
			t.Fatal(err)
		}
		b.make("all.example")
		both, one, none := b.session(), b.session(), b.session()
		label := func(id perdure.SessionID, labels perdure.Labels) {
			b.write(func(tx store.Tx) error { return tx.Sessions().SetLabels(id, labels) })
		}
		label(both, perdure.Labels{"env": "prod", "team": "a"})
		label(one, perdure.Labels{"env": "prod"})
		ends := func(want map[perdure.SessionID]int) {
			t.Helper()
			for _, id := range []perdure.SessionID{both, one, none} {
				b.happen(id, perdure.TurnCompleted{})
			}
			settle(3 * time.Second)
			got := map[perdure.SessionID]int{}
			for _, d := range b.deliveries(made.ID) {
				got[d.Session]++
			}
			for _, id := range []perdure.SessionID{both, one, none} {
				if got[id] != want[id] {
					t.Errorf("%s: got %d, want %d", id, got[id], want[id])
				}
			}
		}

		ends(map[perdure.SessionID]int{both: 1})
		label(one, perdure.Labels{"env": "prod", "team": ""})
		label(both, nil)
		ends(map[perdure.SessionID]int{both: 1, one: 1})
		if _, err := b.Change(context.Background(), made.ID, hook.Patch{Labels: &perdure.LabelFilter{}}); err != nil {
			t.Fatal(err)
		}
		ends(map[perdure.SessionID]int{both: 2, one: 2, none: 1})
		if posts := b.out.at("all.example"); len(posts) != 9 {
			t.Errorf("the webhook without labels got %d posts, want 9", len(posts))
		}
	})
}
