package host

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// countedViews is a store that calls seen after each view, with the number of events that the view
// has read.
type countedViews struct {
	store.Store
	seen func(events int)
}

func (c countedViews) View(ctx context.Context, fn func(store.Reader) error) error {
	n := 0
	defer func() { c.seen(n) }()
	return c.Store.View(ctx, func(r store.Reader) error { return fn(countedReader{r, &n}) })
}

type countedReader struct {
	store.Reader
	events *int
}

type countedJournal struct {
	store.JournalView
	events *int
}

func (r countedReader) Journal() store.JournalView {
	return countedJournal{r.Reader.Journal(), r.events}
}

func (j countedJournal) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	events, err := j.JournalView.Events(id, after, limit)
	*j.events += len(events)
	return events, err
}

// TestLongJournalHoldsNoView: a store has few connections for views, and a web page asks for the
// budgets of a session and follows it with each visit. Neither reads a long journal in one view,
// and a caller that has gone ends the work.
func TestLongJournalHoldsNoView(t *testing.T) {
	t.Parallel()
	m, err := scripted.Parse("script.yaml", []byte("steps: [{text: a}]"))
	if err != nil {
		t.Fatal(err)
	}
	var views []int
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := false
	st := countedViews{memory.New(memory.Config{}), func(events int) {
		if views = append(views, events); left && events > 0 {
			leave()
		}
	}}
	t.Cleanup(func() { st.Close() })
	e, err := New(t.Context(), Config{Store: st, Model: m, Tools: tool.NewRegistry()}, NewWorkerID(), idle{})
	if err != nil {
		t.Fatal(err)
	}
	id := perdure.FormatID[perdure.SessionID]([16]byte{15: 1})
	const length = 3*core.FoldBatch + 1
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionIdle}); err != nil {
			return err
		}
		events := []perdure.Event{{ID: "event_0", Fact: perdure.SessionCreated{}}}
		for i := 1; i < length; i++ {
			events = append(events, perdure.Event{ID: perdure.EventID(fmt.Sprint("event_", i)), Fact: perdure.SessionUpdated{Title: "again"}})
		}
		return tx.Journal().Append(id, events)
	})
	if err != nil {
		t.Fatal(err)
	}

	views = nil
	if _, err := e.Budgets().Check(ctx, id); err != nil {
		t.Fatal(err)
	}
	for _, events := range views {
		if events > core.FoldBatch {
			t.Errorf("one view of Check read %d events, more than a page of %d", events, core.FoldBatch)
		}
	}

	views = nil
	stop := errors.New("enough")
	err = e.Follow(ctx, id, length-1, func(engine.Frame) error { return stop })
	if !errors.Is(err, stop) || len(views) == 0 || views[0] != 0 {
		t.Errorf("Follow of a session without a turn: %v; its views read %v events, want none in the first", err, views)
	}

	views, left = nil, true
	if _, err := e.Budgets().Check(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Check whose caller left: got %v, want canceled", err)
	}
	if len(views) > 2 {
		t.Errorf("after its caller left, Check went on: its views read %v events", views)
	}
}
