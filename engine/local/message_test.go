package local_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// eventReads is a store that counts the events that are read, in transactions and in views.
type eventReads struct {
	store.Store
	inTx, inView int
}

func (c *eventReads) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return c.Store.InTx(ctx, func(tx store.Tx) error { return fn(eventReadsTx{tx, &c.inTx}) })
}

func (c *eventReads) View(ctx context.Context, fn func(store.Reader) error) error {
	return c.Store.View(ctx, func(r store.Reader) error { return fn(eventReadsReader{r, &c.inView}) })
}

type eventReadsTx struct {
	store.Tx
	n *int
}

func (x eventReadsTx) Reader() store.Reader { return eventReadsReader{x.Tx.Reader(), x.n} }

type eventReadsReader struct {
	store.Reader
	n *int
}

func (x eventReadsReader) Journal() store.JournalView {
	return eventReadsJournal{x.Reader.Journal(), x.n}
}

type eventReadsJournal struct {
	store.JournalView
	n *int
}

func (x eventReadsJournal) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	events, err := x.JournalView.Events(id, after, limit)
	*x.n += len(events)
	return events, err
}

// TestSendCosts counts what a message costs. Nothing is read after its commit. A repetition is
// found without a transaction. A transaction reads only the events that came since the message was
// looked for, and the reads do not grow with the journal.
func TestSendCosts(t *testing.T) {
	t.Parallel()
	for _, journal := range []int{10, 3000} { // more than one page
		t.Run(fmt.Sprint(journal, " events"), func(t *testing.T) {
			t.Parallel()
			reads := &eventReads{Store: memory.New(memory.Config{})}
			st := faulty.New(reads, faulty.Plan{})
			t.Cleanup(func() { st.Close() })
			eng, id := silentEngine(t, st)
			first := perdure.Text("hello")
			first.ID = "message_0123456789abcdef0123456789abcdef"
			sent, err := eng.Send(t.Context(), id, first)
			if err != nil || sent.ID != first.ID || sent.Seq != 2 || sent.Hold != nil {
				t.Fatalf("got %+v, %v; want event 2", sent, err)
			}
			fillJournal(t, st, id, journal)

			second := perdure.Text("hello")
			second.ID = "message_1123456789abcdef0123456789abcdef"
			for _, c := range []struct {
				name    string
				message perdure.Message
				seq     int64
				costs   string
			}{
				{"a new message", perdure.Text("hi"), int64(journal) + 1, "InTx 1, View 0, Sessions.Get 1, Journal.Append 1; 0 events in transactions, 0 in views"},
				{"one with an id", second, int64(journal) + 2, "InTx 1, View 1, Sessions.Get 1, Journal.Append 1; 0 events in transactions, 1 in views"},
				{"the first one again", first, 2, "InTx 0, View 1, Sessions.Get 0, Journal.Append 0; 0 events in transactions, 3 in views"},
			} {
				methods := []string{"InTx", "View", "Sessions.Get", "Journal.Append"}
				before := map[string]int{}
				for _, m := range methods {
					before[m] = st.Count(m)
				}
				reads.inTx, reads.inView = 0, 0

				sent, err := eng.Send(t.Context(), id, c.message)

				costs := ""
				for i, m := range methods {
					costs += fmt.Sprint([]string{"", ", "}[min(i, 1)], m, " ", st.Count(m)-before[m])
				}
				costs += fmt.Sprintf("; %d events in transactions, %d in views", reads.inTx, reads.inView)
				if err != nil || sent.Seq != c.seq || costs != c.costs {
					t.Errorf("%s: got event %d, %v, for %s; want event %d for %s", c.name, sent.Seq, err, costs, c.seq, c.costs)
				}
			}
		})
	}
}

// silentEngine opens an engine that does not run, so that only its callers use the store, and
// creates a session.
func silentEngine(t *testing.T, st store.Store) (*local.Engine, perdure.SessionID) {
	t.Helper()
	m, err := scripted.Parse("script.yaml", []byte("steps: [{text: a}]"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	return eng, s.ID
}

// fillJournal extends a journal to n events, and stores a snapshot of all of them.
func fillJournal(t *testing.T, st store.Store, id perdure.SessionID, n int) {
	t.Helper()
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		row, err := tx.Sessions().Get(id)
		if err != nil {
			return err
		}
		events := make([]perdure.Event, n-int(row.LastSeq))
		for i := range events {
			message := perdure.Text("filled")
			message.ID = perdure.MessageID(fmt.Sprintf("message_%032x", i+1))
			events[i] = perdure.Event{ID: perdure.EventID(fmt.Sprintf("event_%032x", i+1)), Fact: perdure.MessageReceived{Message: message, Source: "user"}}
		}
		if err := tx.Journal().Append(id, events); err != nil {
			return err
		}
		all, err := tx.Reader().Journal().Events(id, 0, 0)
		if err != nil {
			return err
		}
		fold := perdure.NewSession(id)
		for _, e := range all {
			if err := fold.Apply(e); err != nil {
				return err
			}
		}
		body, err := perdure.EncodeSnapshot(fold)
		if err != nil {
			return err
		}
		return tx.Sessions().PutSnapshot(id, store.Snapshot{Seq: fold.Seq, Version: perdure.FoldVersion, Body: body})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSendRaces: two requests with the same new id, which both find no earlier message, are one
// message, and both name its event.
func TestSendRaces(t *testing.T) {
	t.Parallel()
	inner := memory.New(memory.Config{})
	message := perdure.Text("hello")
	message.ID = "message_0123456789abcdef0123456789abcdef"
	var eng *local.Engine
	var id perdure.SessionID
	overtaken := false
	st := faulty.New(inner, faulty.Plan{At: func(p faulty.Point) faulty.Fault {
		if eng != nil && p.Method == "InTx" && !overtaken { // after it was looked for, before the transaction
			overtaken = true
			if _, err := eng.Send(context.Background(), id, message); err != nil {
				t.Error(err)
			}
		}
		return faulty.Fault{}
	}})
	t.Cleanup(func() { st.Close() })
	opened, session := silentEngine(t, st)
	eng, id = opened, session

	sent, err := eng.Send(t.Context(), id, message)
	again, repeated := eng.Send(t.Context(), id, message)

	if err != nil || repeated != nil || !overtaken || sent.Seq != 2 || again != sent {
		t.Errorf("got %+v, %v, and %+v, %v; want event 2", sent, err, again, repeated)
	}
	events, err := eng.Events(t.Context(), id, 0, 0)
	if err != nil || len(events) != 2 {
		t.Errorf("%d events, %v; want the session and one message", len(events), err)
	}
}
