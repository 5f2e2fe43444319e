package effect

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

const testWorker = perdure.WorkerID("worker_00000000000000000000000000000001")

// bed is effects over an empty store, with a session in it.
func bed(t *testing.T, change func(*core.Config), tools ...tool.Tool) (*Effects, perdure.SessionID) {
	t.Helper()
	st := memory.New(memory.Config{})
	var m model.Model
	m, err := scripted.Parse("bed", []byte("steps: [{text: hello}]"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := core.Config{Store: st, Model: m, Tools: tool.NewRegistry(tools...),
		Runner: dispatch.NewRunner(t.Context(), dispatch.Config{}), Worker: testWorker}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := core.NewID[perdure.SessionID]()
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted, CreatedAt: tx.Now(),
			UpdatedAt: tx.Now()}); err != nil {
			return err
		}
		events := []perdure.Event{{Session: id, Fact: perdure.SessionCreated{}}}
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(id, events)
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, id
}

func quick(name string, class perdure.EffectClass, background bool) tool.Tool {
	spec := tool.Spec{Name: name, Description: "A fixture.", Class: class}
	run := func(context.Context, struct{}, tool.Env) (string, error) { return "ok", nil }
	if background {
		return tool.NewBackground(spec, run)
	}
	return tool.New(spec, run)
}

// TestReattachRefuses pins the texts of RC15 and their order, with the four tests of the prior art
// and two more.
func TestReattachRefuses(t *testing.T) {
	t.Parallel()
	noFiles := func(c *core.Config) {
		c.Files = func(perdure.SessionID) (tool.Files, tool.Files) { return nil, nil }
	}
	tools := []tool.Tool{quick("again", perdure.Idempotent, true), quick("front", perdure.Pure, false),
		quick("once", perdure.AtMostOnce, true)}
	for _, c := range []struct {
		name, tool, want string
		change           func(*core.Config)
		foreign          bool
	}{
		{name: "missing_file_store", tool: "", foreign: true, change: noFiles,
			want: "file store not available; cannot re-attach background run"},
		{name: "missing_task_registry", tool: "", foreign: true,
			want: "task registry not available; cannot re-attach background run"},
		{name: "missing_tool_spec_field", tool: "",
			want: "background_tool spec missing 'tool' field; cannot re-attach"},
		{name: "unknown_tool_name", tool: "nonexistent_tool",
			want: "tool 'nonexistent_tool' not found in built-in registry; cannot re-attach"},
		{name: "no_executor", tool: "front",
			want: "tool 'front' does not support background execution; cannot re-attach"},
		{name: "class", tool: "once", want: "tool 'once' is not idempotent or readonly; re-attach declined"},
		{name: "none", tool: "again", want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, id := bed(t, c.change, tools...)
			task := perdure.Task{Session: core.NewID[perdure.SessionID](), ID: core.NewID[perdure.TaskID]()}
			if !c.foreign {
				task = stored(t, e, id, c.tool)
			}

			left := claimedTask{task: task}
			err := e.core.Store.View(t.Context(), func(r store.Reader) (err error) {
				left.owner, err = core.ReadOwner(r, task.Session)
				return err
			})
			if foreign := errors.Is(err, perdure.NotFound); foreign != c.foreign {
				t.Fatalf("reading the owner: %v", err)
			}
			got := e.reattachRefusal(left)

			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// stored adds a running task of a tool.
func stored(t *testing.T, e *Effects, id perdure.SessionID, name string) perdure.Task {
	t.Helper()
	task := perdure.Task{
		ID: core.NewID[perdure.TaskID](), Run: core.NewID[perdure.RunID](), Session: id,
		RootSession: id, Kind: perdure.KindBackgroundTool,
		Origin: perdure.OriginSpawned, Tool: name, Spec: perdure.TaskSpec{Tool: name},
		Class: perdure.Idempotent, Lane: perdure.Background,
		State: perdure.TaskRunning, Attempt: 1, Executions: 1, Delivery: perdure.ToLoop,
		Wake: perdure.WakeContinue, Delivered: perdure.NotDelivered,
	}
	err := e.core.Store.InTx(t.Context(), func(tx store.Tx) error {
		task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
		_, _, err := tx.Tasks().Create(task)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return task
}
