package taskprocess

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

const here = perdure.HomeID("home_00000000000000000000000000000001")

// supervised is a tool whose one process has a secret argument in its command line.
type supervised struct{ tool.Supervised }

const password = "correct-horse-battery"

func (supervised) Spec() tool.Spec {
	return tool.Spec{Name: "hold", Description: "A fixture.", Class: perdure.AtMostOnce,
		Parameters: json.RawMessage(`{"type": "object", "properties": {"word": {"type": "string", "writeOnly": true}}}`)}
}

func (supervised) Processes(_ context.Context, call tool.Call) (perdure.TaskProcesses, error) {
	if call.Execution == 0 {
		return perdure.TaskProcesses{State: perdure.ProcessNotStarted}, nil
	}
	return perdure.TaskProcesses{State: perdure.ProcessRunning, Count: 1,
		Processes: []perdure.Process{{PID: 7, Command: "hold\n\t" + password + " --token abcdefgh", Directory: "/tmp/" + password}},
		End:       &perdure.ProcessEnd{Error: password, Limit: password}}, nil
}

// bed returns processes over a store, and a task of a tool that was claimed or not.
func bed(t *testing.T, name string, change perdure.TaskUpdate, claimed bool) (*Processes, perdure.Task) {
	t.Helper()
	b := effecttest.New(t, func(c *core.Config) { c.Home.ID = here }, supervised{}, effecttest.Quick("quick", perdure.Pure, true))
	task := effecttest.Running(t, b.Core.Store, b.Session, name)
	args, some := b.Secrets.Extract(task.LedgerKey(), supervised{}, json.RawMessage(`{"word": "`+password+`"}`))
	err := b.Core.Store.InTx(t.Context(), func(tx store.Tx) error {
		change.Attempt = 1
		if _, err := tx.Tasks().Update(task.Session, task.ID, change); err != nil {
			return err
		}
		if !claimed {
			return nil
		}
		row := perdure.Call{Key: task.LedgerKey(), Task: task.ID, Tool: name, Args: args, Class: perdure.AtMostOnce,
			State: perdure.CallRunning, Token: core.NewToken(), Worker: b.Core.Worker, Attempt: 1}
		_, _, err := tx.Calls().Claim(row, func(perdure.WorkerID) bool { return true })
		return err
	})
	if err != nil || !some {
		t.Fatal(err, some)
	}
	return New(b.Core, b.Toolset, b.Secrets), task
}

// TestSecretsOfACommandLine: a secret argument is masked wherever the tool shows it, and what has
// it is hidden once it is not known any more, because the process that held it is gone (RD4, RD6).
func TestSecretsOfACommandLine(t *testing.T) {
	t.Parallel()
	ps, task := bed(t, "hold", perdure.TaskUpdate{}, true)

	known, err := ps.Of(t.Context(), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	ps.secrets.Vault.Drop(task.LedgerKey())
	lost, err := ps.Of(t.Context(), task.ID)
	if err != nil {
		t.Fatal(err)
	}

	if line := known.Processes[0].Command; !strings.HasPrefix(line, "hold ") || strings.ContainsAny(line, "\n\t") || strings.Contains(line, "abcdefgh") {
		t.Errorf("got %q, want one line without the token", line)
	}
	if lost.Processes[0].Command != redact.Unprintable || lost.Processes[0].Directory != redact.Unprintable || lost.Processes[0].PID != 7 {
		t.Errorf("got %+v, want that its texts are hidden", lost.Processes[0])
	}
	for name, shown := range map[string]perdure.TaskProcesses{"known": known, "lost": lost} {
		if text, err := json.Marshal(shown); err != nil || strings.Contains(string(text), password) {
			t.Errorf("%s: got %s, %v", name, text, err)
		}
	}
}

// TestTasksWithoutProcesses: a task that has none says so, whatever has become of its tool.
func TestTasksWithoutProcesses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tool    string
		change  perdure.TaskUpdate
		claimed bool
		want    perdure.ProcessState
		err     error
	}{
		"a tool that starts none":                {tool: "quick", claimed: true, want: perdure.ProcessNone},
		"a subagent":                             {tool: "hold", change: perdure.TaskUpdate{Links: perdure.Links{ChildSession: "session_1"}}, claimed: true, want: perdure.ProcessNone},
		"never claimed":                          {tool: "hold", want: perdure.ProcessNotStarted},
		"a removed tool that left nothing":       {tool: "removed", claimed: true, want: perdure.ProcessNone},
		"a removed tool that may have left some": {tool: "removed", change: perdure.TaskUpdate{StartsExecution: true, Home: here}, claimed: true, err: perdure.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ps, task := bed(t, test.tool, test.change, test.claimed)

			got, err := ps.Of(t.Context(), task.ID)

			if !errors.Is(err, test.err) || got.State != test.want {
				t.Fatalf("got %+v, %v, want %q, %v", got, err, test.want, test.err)
			}
			if err == nil && (got.Task != task.ID || got.Processes == nil || got.Files == nil || got.At.IsZero() || got.Host != "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
