package perdure_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// TestStateChanges folds the stored journals: the changes of each event lead from the outline
// before it to the outline after it.
func TestStateChanges(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := perdure.NewSession("session_0190b9e7c0de7000800000000000c0de")
		for line := range strings.Lines(string(text)) {
			e, err := perdure.DecodeEvent([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			before := at.Clone()
			if err := at.Apply(e); err != nil {
				t.Fatal(err)
			}
			was, is := perdure.OutlineOf(before), perdure.OutlineOf(at)
			changes := perdure.StateChanges(before, at)
			was.Seq = is.Seq
			if was != is && len(changes) == 0 {
				t.Errorf("%s, event %d: the outline changed from %+v to %+v", file, e.Seq, was, is)
			}
			for _, c := range changes {
				if seen[c.What] = true; c.Before == c.After {
					t.Errorf("%s, event %d: %+v is no change", file, e.Seq, c)
				}
			}
		}
	}
	for _, what := range []string{"state", "turn", "step", "messages", "queued", "call", "task", "to deliver", "unknown", "tokens"} {
		if !seen[what] {
			t.Errorf("no event changes %q", what)
		}
	}
}
