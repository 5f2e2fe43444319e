package taskrun

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// bed is tasks over an empty store, with a session in it.
func bed(t *testing.T, change func(*core.Config), tools ...tool.Tool) (*Tasks, perdure.SessionID) {
	t.Helper()
	b := effecttest.New(t, change, tools...)
	return over(b), b.Session
}

// over is tasks over a bed.
func over(b *effecttest.Bed) *Tasks {
	return New(Parts{Core: b.Core, Toolset: b.Toolset, Secrets: b.Secrets, Environment: b.Environment,
		Records: b.Records}, nil)
}

// TestReattachRefuses pins the texts of RC15 and their order, with the four tests of the prior art
// and two more.
func TestReattachRefuses(t *testing.T) {
	t.Parallel()
	noFiles := func(c *core.Config) {
		c.Ports.Files = func(perdure.SessionID) (tool.Files, tool.Files) { return nil, nil }
	}
	tools := []tool.Tool{effecttest.Quick("again", perdure.Idempotent, true), effecttest.Quick("front", perdure.Pure, false),
		effecttest.Quick("once", perdure.AtMostOnce, true)}
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
				task = effecttest.Running(t, e.core.Store, id, c.tool)
			}

			left := Claimed{Task: task}
			err := e.core.Store.View(t.Context(), func(r store.Reader) (err error) {
				left.Owner, err = core.ReadOwner(r, task.Session)
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
