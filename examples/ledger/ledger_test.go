package ledger_test

import (
	"testing"

	"github.com/perdure/perdure/examples/ledger"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

func TestCrash(t *testing.T) {
	t.Parallel()
	tooltest.Crash(t, ledger.Reindex(), map[string]any{})
	tooltest.Crash(t, ledger.Pay(&ledger.Payments{}), map[string]int{"cents": 500})
}

func TestSearchSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	tools := tool.NewRegistry(ledger.SearchNotes())
	if err := tools.Err(); err != nil {
		t.Fatal(err)
	}
	call := tool.Call{Tool: "search_notes", Args: []byte(`{"word":"tea"}`)}

	results, err := tools.ExecuteAll(t.Context(), []tool.Call{call}, tool.Env{})

	if err != nil || results[0].Text != "Session file store not available in this context. search_notes requires the files of a session." {
		t.Errorf("got %+v, %v", results, err)
	}
}
