package file_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// indexed is files that search themselves.
type indexed struct {
	tool.DisabledFiles
	found tool.FileMatches
	err   error
	asked []tool.FileSearch
}

// Grep implements tool.Grepper.
func (f *indexed) Grep(_ context.Context, s tool.FileSearch) (tool.FileMatches, error) {
	f.asked = append(f.asked, s)
	return f.found, f.err
}

// TestGrepper: files that search themselves are asked, with the defaults filled in, and what they
// find is cut to the same limits. Without an own search they are read.
func TestGrepper(t *testing.T) {
	t.Parallel()
	many := make([]tool.FileMatch, 300)
	for i := range many {
		many[i] = tool.FileMatch{Path: "/a", LineNumber: i + 1, Line: strings.Repeat("x", 2000)}
	}
	files := &indexed{found: tool.FileMatches{Matches: many, Skipped: []tool.FileSkip{{Path: "/b", Reason: "not indexed"}}}}

	got, err := file.Grep(t.Context(), files, tool.FileSearch{Pattern: "x", IgnoreCase: true})

	if err != nil || len(got.Matches) >= 200 || !got.Truncated || len(got.Matches[0].Line) > 1010 || len(files.asked) != 1 || files.asked[0].Max != 200 || files.asked[0].Directory != "/" {
		t.Errorf("got %d matches, truncated %t, %v; asked %+v", len(got.Matches), got.Truncated, err, files.asked)
	}
	if _, err := file.Grep(t.Context(), files, tool.FileSearch{Pattern: "("}); !errors.Is(err, perdure.Invalid) || len(files.asked) != 1 {
		t.Errorf("a wrong pattern: %v; asked %d times", err, len(files.asked))
	}
	files.err = errors.ErrUnsupported
	if _, err := file.Grep(t.Context(), files, tool.FileSearch{Pattern: "x"}); err == nil || !strings.Contains(err.Error(), "disabled") {
		t.Errorf("without an own search: %v", err)
	}
	w := newWorkbench(t, map[string]string{"/src/a.go": "Func\n", "/b.go": "func\n"})
	w.want("grep_files", `{"pattern":"(?i)func"}`, `{"matches":[{"path":"/b.go","line_number":1,"line":"func"},{"path":"/src/a.go","line_number":1,"line":"Func"}],"truncated":false,"skipped":[]}`)
}
