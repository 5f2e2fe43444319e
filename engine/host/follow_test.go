package host

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/generation"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestST4Holes: where live text was lost, the text so far is sent instead, once, as soon as the
// store has enough of it; nothing that leaves a hole is sent, and nothing is sent twice.
func TestST4Holes(t *testing.T) {
	t.Parallel()
	const message = perdure.MessageID("message_1")
	st := memory.New(memory.Config{})
	defer st.Close()
	id := perdure.FormatID[perdure.SessionID]([16]byte{15: 1})
	keep := func(text string) {
		t.Helper()
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			return tx.Journal().PutPartial(store.Partial{Session: id, Message: message, Text: text})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted})
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	f := &follower{e: &Host{cfg: Config{Store: st}}, ctx: t.Context(), id: id, open: message, fn: func(frame engine.Frame) error {
		var d generation.OutputDelta
		if err := perdure.DecodeKnownJSON(frame.Data, &d); err != nil {
			return err
		}
		told = append(told, fmt.Sprintf("%d:%s -%d", d.Offset, d.Delta, frame.Dropped))
		return nil
	}}
	for _, step := range []struct {
		name, kept string
		at         int
		text       string
		want       []string
	}{
		{"in order", "", 0, "It", []string{"0:It -0"}},
		{"a hole that the store does not fill yet", "", 5, " in", nil},
		{"a hole that it fills", "It is in the", 8, " the", []string{"0:It is in the -1"}},
		{"what stands in the text so far", "", 5, " in the", nil},
		{"what only begins there", "", 8, " the drawer", []string{"12: drawer -0"}},
		{"a mark of what is there", "", 12, "", nil},
		{"a mark of more", "It is in the drawer of", 22, "", []string{"0:It is in the drawer of -0"}},
		{"another attempt, which says something else", "", 2, "'s", []string{"2:'s -0"}},
	} {
		if step.kept != "" {
			keep(step.kept)
		}
		told = nil
		err := f.handleFrame(store.Frame{Type: generation.DeltaFrame, Data: generation.OutputDelta{MessageID: message, Offset: step.at, Delta: step.text}})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(told, step.want); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

// TestST4BeforeItWatches: text that was streamed between the read of the journal and the
// subscription is sent with the event that opens the answer, or that discards it, since no frame
// for it follows: a paused answer would show nothing.
func TestST4BeforeItWatches(t *testing.T) {
	t.Parallel()
	const message = perdure.MessageID("message_1")
	st := memory.New(memory.Config{})
	defer st.Close()
	id := perdure.FormatID[perdure.SessionID]([16]byte{15: 1})
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted})
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	f := &follower{e: &Host{cfg: Config{Store: st}}, ctx: t.Context(), id: id, startSeq: 3, fn: func(frame engine.Frame) error {
		if frame.Event != nil {
			told = append(told, string(frame.Event.Fact.EventType()))
			return nil
		}
		var d generation.OutputDelta
		err := perdure.DecodeKnownJSON(frame.Data, &d)
		told = append(told, fmt.Sprintf("%d:%s", d.Offset, d.Delta))
		return err
	}}
	for i, step := range []struct {
		kept string
		fact perdure.Fact
	}{
		{"It is in the", perdure.OutputStarted{MessageID: message}},
		{"It", perdure.OutputReplaced{MessageID: message, ReasonCode: perdure.ReplacedByRestart}},
	} {
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			return tx.Journal().PutPartial(store.Partial{Session: id, Message: message, Text: step.kept})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.handleFrame(store.Frame{Event: &perdure.Event{Seq: f.startSeq + int64(i) + 1, Fact: step.fact}}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"output.message.started", "0:It is in the", "output.message.replaced", "0:It"}
	if diff := cmp.Diff(told, want); diff != "" {
		t.Error(diff)
	}
}
