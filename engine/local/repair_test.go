package local_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// damaged creates a session whose transcript was imported: calls of old turns without results, one
// with two, and a result without a call. The ledger has some of them.
func damaged(t *testing.T, w *world, st store.Store) perdure.SessionID {
	t.Helper()
	eng := w.Start(t)
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop(t)
	call := func(id perdure.CallID) perdure.Part {
		return perdure.Part{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: id, Name: "note", Arguments: []byte("{}")}}
	}
	result := func(id perdure.CallID, text string) perdure.Message {
		body, _ := json.Marshal(text)
		return perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{{
			Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: id, Result: body},
		}}}
	}
	agent := func(parts ...perdure.Part) perdure.Message {
		return perdure.Message{Role: perdure.RoleAgent, Parts: parts}
	}
	forked := perdure.SessionForked{From: s.ID, Transcript: []perdure.Message{
		perdure.Text("begin"),
		agent(call("settled"), call("known"), call("never")), result("known", "once"), result("known", "twice"),
		perdure.Text("and?"),
		agent(call("unknown"), call("stray")), result("nobody", "whose?"),
		agent(perdure.Part{Type: perdure.PartText, Text: "so"}), result("stray", "late"),
	}}
	turn := perdure.TurnID("turn_" + strings.Repeat("7", 32))
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		for _, id := range []perdure.CallID{"settled", "unknown"} {
			row := perdure.Call{
				Key: perdure.CallKey{Session: s.ID, Call: id}, Turn: turn, Tool: "note", Args: []byte("{}"), Fingerprint: "f",
				Class: perdure.AtMostOnce, Token: perdure.Token("token of " + id), Worker: "worker_dead",
			}
			if _, _, err := tx.Calls().Claim(row, func(perdure.WorkerID) bool { return false }); err != nil {
				return err
			}
		}
		done := perdure.ToolResult{CallID: "settled", Result: []byte(`"it was done"`)}
		if err := tx.Calls().Settle(perdure.CallKey{Session: s.ID, Call: "settled"}, "token of settled", perdure.CallSettled, done); err != nil {
			return err
		}
		lost := perdure.Failed("unknown", perdure.ErrorUnknown, perdure.TextUnknown)
		if err := tx.Calls().Settle(perdure.CallKey{Session: s.ID, Call: "unknown"}, "token of unknown", perdure.CallUnknown, lost); err != nil {
			return err
		}
		return tx.Journal().Append(s.ID, []perdure.Event{{ID: "event_" + perdure.EventID(strings.Repeat("9", 32)), At: time.Now(), Fact: forked}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// repairs are the repairs of a journal.
func repairs(t *testing.T, eng engine.Engine, id perdure.SessionID) (all []string) {
	t.Helper()
	events, err := eng.Events(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TranscriptRepaired); ok {
			all = append(all, fmt.Sprintf("%s %s %.6s", f.CallID, f.Action, f.TurnID))
		}
	}
	return all
}

// mended is a damaged session to which two messages were sent, one after another.
func mended(t *testing.T) (engine.Engine, perdure.SessionID) {
	t.Helper()
	st := memory.New(memory.Config{})
	w := newWorld(t, enginetest.Setup{Script: "steps: [{text: x}, {text: x}, {text: x}, {text: here I am, repeat: true}]"},
		func(*testing.T) store.Store { return st }, func(store.Store) {})
	id := damaged(t, w, st)
	eng := w.Start(t)
	for range 2 {
		if _, err := eng.Send(t.Context(), id, perdure.Text("go on")); err != nil {
			t.Fatal(err)
		}
		if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return eng, id
}

// TestRepairFindsOldTurn: the ledger's record of a call decides, whatever turn the call was made in
// (TN17). A call that is in the ledger is never reported as safe to retry.
func TestRepairFindsOldTurn(t *testing.T) {
	t.Parallel()
	eng, id := mended(t)

	lines, _ := talk(t, eng, id)

	failed := func(text string) string { return fmt.Sprintf(`tool_result: {"error":%q}`, text) }
	want := []string{
		"user: begin", "agent: ", `tool_result: "it was done"`, `tool_result: "once"`, failed(perdure.TextNotExecuted),
		"user: and?", "agent: ", failed(perdure.TextUnknown), `tool_result: "late"`, "agent: so",
		"user: go on", "agent: here I am", "user: go on", "agent: here I am",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q\nwant %q", lines, want)
	}
}

// TestRepairPersistedOnce: a repair is journaled, and the next model call finds nothing to repair
// (TN16, TN18).
func TestRepairPersistedOnce(t *testing.T) {
	t.Parallel()
	eng, id := mended(t)

	got := repairs(t, eng, id)

	slices.Sort(got)
	want := []string{"known dropped ", "never not_executed ", "nobody dropped ", "settled replay turn_7", "stray dropped ", "stray replay ", "unknown unknown turn_7"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
