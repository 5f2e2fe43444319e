package core

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestOwnerIsWhatTheFoldSays reads the first event of journals of every release: a run must see the
// agent that the session's own calls see.
func TestOwnerIsWhatTheFoldSays(t *testing.T) {
	t.Parallel()
	journals, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "journals", "*.jsonl"))
	if err != nil || len(journals) == 0 {
		t.Fatalf("%d journals, %v", len(journals), err)
	}
	for _, path := range journals {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var events []perdure.Event
		for line := range strings.Lines(string(text)) {
			var event perdure.Event
			if err := perdure.DecodeJSON([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
		fold := perdure.NewSession(events[0].Session)
		for _, event := range events {
			if err := fold.Apply(event); err != nil {
				t.Fatal(err)
			}
		}

		got, err := ReadOwner(onlyEvents{events: events}, fold.ID)

		want := OwnerOf(fold)
		if err != nil || got.Session != want.Session || !got.Created.Equal(want.Created) ||
			got.Agent.Name != want.Agent.Name ||
			got.Agent.Instructions != want.Agent.Instructions || len(got.Agent.Tools) != len(want.Agent.Tools) {
			t.Errorf("%s: got %+v and %v, want %+v", filepath.Base(path), got, err, want)
		}
	}
}

// onlyEvents reads a journal; it has nothing else.
type onlyEvents struct {
	store.Reader
	events []perdure.Event
}

// onlyEventsJournal overrides a part of one noun.
type onlyEventsJournal struct {
	store.JournalView
	onlyEvents
}

func (o onlyEvents) Journal() store.JournalView { return onlyEventsJournal{nil, o} }

// Events returns the first ones.
func (o onlyEventsJournal) Events(_ perdure.SessionID, _ int64, limit int) ([]perdure.Event, error) {
	return o.events[:limit], nil
}

// TestOwnerOfNobody tells a missing session from a missing store.
func TestOwnerOfNobody(t *testing.T) {
	t.Parallel()
	err := memory.New(memory.Config{}).View(t.Context(), func(r store.Reader) error {
		_, err := ReadOwner(r, NewID[perdure.SessionID]())
		return err
	})
	if !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v", err)
	}
}
