package sessionport_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// play creates a session with facts, the first of which is session.created. It has the ids of the
// world.
func (w *world) play(facts ...perdure.Fact) perdure.SessionID {
	w.Helper()
	w.n++
	id := perdure.SessionID(fmt.Sprintf("session_%032d", w.n))
	var events []perdure.Event
	for i, f := range facts {
		events = append(events, perdure.Event{ID: perdure.EventID(fmt.Sprintf("event_%d_%d", w.n, i)), Actor: "user", At: noon.Add(time.Duration(i) * time.Second), Fact: f})
	}
	w.write(func(tx store.Tx) error {
		return errors.Join(tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted}), tx.Journal().Append(id, events))
	})
	return id
}

// fixture returns the facts of a journal of the root package's fixtures.
func fixture(t *testing.T, path string) (facts []perdure.Fact) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		e, err := perdure.DecodeEvent(line)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, e.Fact)
	}
	return facts
}

// pages reads all messages in pages of the given size, each after the one before.
func pages(w *world, port tool.Messages, limit int) (found []tool.NumberedMessage, last int64) {
	w.Helper()
	for {
		page, err := port.Messages(w.Context(), last, limit)
		w.ok(err)
		if page.Source < last || page.More && page.Source == last {
			w.Fatalf("after %d the page ends at %d", last, page.Source)
		}
		for _, m := range page.Messages {
			if m.Seq <= last || m.Seq > page.Source {
				w.Fatalf("message at %d in a page from %d to %d", m.Seq, last, page.Source)
			}
		}
		found, last = append(found, page.Messages...), page.Source
		if !page.More {
			return found, last
		}
	}
}

// equalsFold checks that a session's messages are those of its fold, for every page size (MR1).
func (w *world) equalsFold(id perdure.SessionID) []tool.NumberedMessage {
	w.Helper()
	fold := w.folded(id)
	var all []tool.NumberedMessage
	for _, limit := range []int{0, 1, 2, 3, 1000, 1 << 30} {
		port := w.ports(id).Messages // which continues from page to page
		found, last := pages(w, port, limit)
		var messages []perdure.Message
		for i, m := range found {
			messages = append(messages, m.Message)
			if i > 0 && m.Seq < found[i-1].Seq {
				w.Errorf("limit %d: message %d stands at %d, the one before at %d", limit, i, m.Seq, found[i-1].Seq)
			}
		}
		w.same(fmt.Sprint("messages by pages of ", limit), messages, fold.Transcript)
		w.same("source", last, fold.Seq)
		all = found
	}
	return all
}

// TestMessagesEqualTheFold reads the journals of all releases.
func TestMessagesEqualTheFold(t *testing.T) {
	t.Parallel()
	fixtures, err := filepath.Glob("../../testdata/journals/*.jsonl")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("got %v, %v, want journals", fixtures, err)
	}
	eachStore(t, func(w *world) {
		for _, path := range fixtures {
			facts := fixture(w.T, path)
			if found := w.equalsFold(w.play(facts...)); len(found) < 2 {
				w.Errorf("%s: got %d messages", path, len(found))
			}
		}
	})
}

func said(role perdure.Role, words string) perdure.Message {
	return perdure.Message{ID: perdure.MessageID("message_" + words), Role: role, Parts: []perdure.Part{{Type: perdure.PartText, Text: words}}}
}

// TestMessagesOfAFork: the copied messages are one event, and never split.
func TestMessagesOfAFork(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.play(perdure.SessionCreated{}, perdure.SessionForked{From: "session_x", Transcript: []perdure.Message{
			said(perdure.RoleUser, "one"), said(perdure.RoleAgent, "two"), said(perdure.RoleUser, "three"),
		}}, perdure.TaskDelivered{Message: said(perdure.RoleNotification, "four")})

		found := w.equalsFold(id)

		w.same("numbers", numbers(found), []int64{2, 2, 2, 3})
		page, err := w.ports(id).Messages.Messages(w.Context(), 0, 2)
		w.ok(err)
		w.same("first page", []any{len(page.Messages), page.Source, page.More}, []any{3, int64(2), true})
	})
}

func numbers(found []tool.NumberedMessage) (seqs []int64) {
	for _, m := range found {
		seqs = append(seqs, m.Seq)
	}
	return seqs
}

// TestMessagesOfARepair: a result that a repair inserted has the number of its call, and a surplus
// one is gone (TN16).
func TestMessagesOfARepair(t *testing.T) {
	t.Parallel()
	call := perdure.ToolCall{ID: "call_1", Name: "echo", Arguments: []byte(`{}`)}
	asks := perdure.Message{ID: "message_asks", Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &call}}}
	result := perdure.ToolResult{CallID: "call_1", Result: []byte(`"yes"`)}
	stray := perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: "call_x", Result: []byte(`1`)}}}}
	eachStore(t, func(w *world) {
		id := w.play(perdure.SessionCreated{},
			perdure.SessionForked{From: "session_x", Transcript: []perdure.Message{said(perdure.RoleUser, "one"), asks}},
			perdure.TaskDelivered{Message: stray},
			perdure.TaskDelivered{Message: said(perdure.RoleAgent, "three")},
			perdure.TaskDelivered{Message: said(perdure.RoleUser, "four")},
			perdure.TranscriptRepaired{CallID: "call_1", Action: perdure.RepairInterrupted, Result: &result},
			perdure.TranscriptRepaired{CallID: "call_x", Action: perdure.RepairDropped},
			perdure.TaskDelivered{Message: said(perdure.RoleUser, "five")},
		)

		found := w.equalsFold(id)

		w.same("numbers", numbers(found), []int64{2, 2, 2, 4, 5, 8})
		w.same("result", found[2].Parts[0].Result, &result)
	})
}

// TestMessagesFollow: a port that has read a page sees later messages.
func TestMessagesFollow(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.play(perdure.SessionCreated{}, perdure.TaskDelivered{Message: said(perdure.RoleUser, "one")})
		port, ctx := w.ports(id).Messages, w.Context()
		first, err := port.Messages(ctx, 0, 0)
		w.ok(err)
		w.write(func(tx store.Tx) error {
			return tx.Journal().Append(id, []perdure.Event{{ID: "event_later", At: noon, Fact: perdure.TaskDelivered{Message: said(perdure.RoleUser, "two")}}})
		})

		second, err := port.Messages(ctx, first.Source, 0)
		w.ok(err)

		w.same("numbers", []any{numbers(first.Messages), first.Source, numbers(second.Messages), second.Source}, []any{[]int64{2}, int64(2), []int64{3}, int64(3)})
		for _, bad := range [][2]int{{-1, 0}, {0, -1}} {
			_, err = port.Messages(ctx, int64(bad[0]), bad[1])
			w.refused(err, perdure.Invalid)
		}
		_, err = w.ports("session_nobody").Messages.Messages(ctx, 0, 0)
		w.refused(err, perdure.NotFound)
		empty, err := port.Messages(ctx, 99, 0)
		w.ok(err)
		w.same("beyond the end", []any{len(empty.Messages), empty.Source, empty.More}, []any{0, int64(3), false})
	})
}

// TestMessagesOfALongJournal reads more events than are read at once.
func TestMessagesOfALongJournal(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		facts := []perdure.Fact{perdure.SessionCreated{}}
		for i := range 1300 {
			facts = append(facts, perdure.TaskDelivered{Message: said(perdure.RoleUser, fmt.Sprint(i))})
		}
		id := w.play(facts...)

		page, err := w.ports(id).Messages.Messages(w.Context(), 0, 5000)
		w.ok(err)
		w.same("a page", []any{len(page.Messages), page.Source, page.More}, []any{1000, int64(1001), true})
		rest, err := w.ports(id).Messages.Messages(w.Context(), page.Source, 0)
		w.ok(err)
		w.same("the next", []any{len(rest.Messages), rest.Messages[0].Seq, rest.More}, []any{100, int64(1002), true})
	})
}
