package tooltest_test

import (
	"errors"
	"testing"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

// The first two subtests pin prior-art/000.
func TestFailingTool(t *testing.T) {
	t.Parallel()

	t.Run("tool", func(t *testing.T) {
		got := tooltest.FailingTool{Text: "Something went wrong"}.Run(t.Context(), tool.Call{}, tool.Env{})

		if got.Kind != tool.KindToolError || got.Text != "Something went wrong" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("internal", func(t *testing.T) {
		got := tooltest.FailingTool{Internal: errors.New("Database connection failed")}.Run(t.Context(), tool.Call{}, tool.Env{})

		if got.Kind != tool.KindInternal || got.Err.Error() != "Database connection failed" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("default", func(t *testing.T) {
		got := tooltest.FailingTool{}.Run(t.Context(), tool.Call{}, tool.Env{})

		if got.Kind != tool.KindToolError || got.Text != "Tool execution failed" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("definition", func(t *testing.T) {
		d := tool.DefinitionOf(tooltest.FailingTool{})

		if d.Name != "failing_tool" || d.DisplayName != "Failing Tool" || !*d.Hints.ReadOnly || !*d.Hints.Idempotent {
			t.Errorf("got %+v", d)
		}
		if err := tool.NewRegistry(tooltest.FailingTool{}).Err(); err != nil {
			t.Error(err)
		}
	})
}
