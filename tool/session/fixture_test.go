package session_test

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

const sessionID = perdure.SessionID("session_00000000000000000000000000000001")

// portsOf opens a session over a real store, and returns what makes the ports of its calls; without
// keys there is no keyring.
func portsOf(t *testing.T, keys bool) func(call tool.Call) tool.Ports {
	t.Helper()
	s := memory.New(memory.Config{})
	err := s.InTx(t.Context(), func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: sessionID, Status: perdure.SessionStarted}); err != nil {
			return err
		}
		return tx.Journal().Append(sessionID, []perdure.Event{{ID: "event_1", Actor: "user", Fact: perdure.SessionCreated{}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := sessionport.Config{Store: s}
	if keys {
		if cfg.Keys, err = secret.Create(filepath.Join(t.TempDir(), "keyring")); err != nil {
			t.Fatal(err)
		}
	}
	open := sessionport.New(cfg)
	return func(call tool.Call) tool.Ports { return open(sessionID, call) }
}

// execute runs a call of one of the tools in the session, and returns the recorded result. The
// arguments are not validated.
func execute(t *testing.T, tools []tool.Tool, call tool.Call, env tool.Env) perdure.ToolResult {
	t.Helper()
	call.Session, call.ID = sessionID, cmp.Or(call.ID, "call_1")
	answer, err := tool.NewRegistry(tools...).Execute(t.Context(), call, env)
	if err != nil {
		t.Fatal(err)
	}
	record, err := answer.Record(call.ID)
	if err != nil {
		t.Fatal(err)
	}
	return record
}
