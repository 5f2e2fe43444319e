package host

import (
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// tailedJournal counts the events that are read of journals.
type tailedJournal struct {
	store.JournalView
	read *int
}

func (c tailedJournal) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	events, err := c.JournalView.Events(id, after, limit)
	*c.read += len(events)
	return events, err
}

type tailedReader struct {
	store.Reader
	read *int
}

func (c tailedReader) Journal() store.JournalView {
	return tailedJournal{c.Reader.Journal(), c.read}
}

// TestListedCostsAreBounded: the costs of a list read a bounded number of events, each once, and a
// long journal is complete after some lists. An unfinished sum is not shown.
func TestListedCostsAreBounded(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	defer st.Close()
	e := &Host{meter: newMeter(Billing{Prices: &budget.Table{Models: []budget.ModelPrice{{Model: "m", Currency: budget.USD, Input: budget.Whole(1)}}}})}
	id := perdure.SessionID("session_00000000000000000000000000000001")
	const calls = 3 * maxSpendEvents
	add := func(n int) {
		t.Helper()
		events := make([]perdure.Event, 0, n)
		for range n {
			events = append(events, perdure.Event{
				ID: core.NewID[perdure.EventID](), At: time.Unix(1_700_000_000, 0),
				Fact: perdure.Generation{Model: "m", Usage: perdure.Usage{InputTokens: 1_000_000}},
			})
		}
		if err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.Journal().Append(id, events) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionIdle})
	}); err != nil {
		t.Fatal(err)
	}
	for range calls / 1000 {
		add(1000)
	}
	list := func() (cost *engine.Cost, read int) {
		t.Helper()
		err := st.View(t.Context(), func(r store.Reader) error {
			row, err := r.Sessions().Get(id)
			if err != nil {
				return err
			}
			all := []engine.Session{{ID: id, LastSeq: row.LastSeq}}
			err = e.spending.list(e, tailedReader{r, &read}, all)
			cost = all[0].Cost
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return cost, read
	}

	for range 2 {
		if cost, read := list(); cost != nil || read != maxSpendEvents {
			t.Fatalf("got %+v after %d events, want no cost and %d events", cost, read, maxSpendEvents)
		}
	}
	if cost, _ := list(); cost == nil || cost.Amounts[budget.USD] != budget.Whole(calls) || cost.Unpriced != 0 {
		t.Errorf("got %+v, want %d", cost, calls)
	}
	add(2)
	if cost, read := list(); read != 2 || cost == nil || cost.Amounts[budget.USD] != budget.Whole(calls+2) {
		t.Errorf("got %+v after %d events, want %d after 2", cost, read, calls+2)
	}
	if cost, read := list(); read != 0 || cost == nil {
		t.Errorf("got %+v after %d events, want the same without any", cost, read)
	}
}
