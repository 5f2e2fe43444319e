package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// ledger is an engine with calls.
type ledger struct {
	*scene
	calls []perdure.Call
}

// ledgerCalls implements engine.Calls for ledger.
type ledgerCalls struct {
	engine.Calls
	ledger
}

// Calls implements engine.Engine.
func (l ledger) Calls() engine.Calls { return ledgerCalls{nil, l} }

func (l ledgerCalls) List(context.Context, perdure.SessionID) ([]perdure.Call, error) {
	return l.calls, nil
}

// TestC02UnknownIsLeftOut: JSON leaves out unknown values. A server sends no worker and no epoch of
// a call, and a task without a cancel has no receipt.
func TestC02UnknownIsLeftOut(t *testing.T) {
	t.Parallel()
	key := perdure.CallKey{Session: "session_1", Call: "call_1"}
	far := ledger{&scene{sessions: sessionsOf("session_1")}, []perdure.Call{{Key: key, State: perdure.CallSettled}}}
	near := ledger{far.scene, []perdure.Call{{Key: key, State: perdure.CallSettled, Worker: "worker_1", Epoch: 3}}}
	for _, args := range []string{"call list last -o json", "call show last/call_1 -o json"} {
		if _, out, talk := (command{args: args, engine: far}).run(t.Context()); strings.Contains(out, "worker_id") || strings.Contains(out, "epoch") || !strings.Contains(out, "call_1") {
			t.Errorf("%s, of a server: %s%s", args, out, talk)
		}
		_, out, talk := command{args: args, engine: near}.run(t.Context())
		if !strings.Contains(out, `"worker_id": "worker_1"`) || !strings.Contains(out, `"epoch": 3`) || strings.Count(out, "epoch") != 1 {
			t.Errorf("%s, of a directory: %s%s", args, out, talk)
		}
	}
	ended := &scene{views: [][]perdure.Task{{{ID: "task_1", State: perdure.TaskSucceeded}}}}
	code, out, talk := command{args: "task cancel task_1 -o json", scene: ended}.run(t.Context())
	if code != exitOK || strings.Contains(out, "requested_at") || strings.Contains(out, "receipt") || !json.Valid([]byte(out)) {
		t.Errorf("exit code %d: %s%s", code, out, talk)
	}
}
