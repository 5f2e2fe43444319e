package file_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestGrepFiles(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, map[string]string{
		"/a.go": "package a\nfunc A() {}\n", "/src/b.go": "func B() {}\r\n// FUNC\n", "/src/deep/c.txt": "func in text", "/bytes": "func\x00",
	})

	w.want("grep_files", `{"pattern":"^func ([AB])\\(\\) \\{\\}$"}`, `{"matches":[{"path":"/a.go","line_number":2,"line":"func A() {}"},`+
		`{"path":"/src/b.go","line_number":1,"line":"func B() {}"}],"truncated":false,"skipped":[{"path":"/bytes","reason":"not text"}]}`)
	w.want("grep_files", `{"pattern":"(?i)func","path_pattern":"/src/**/*.txt"}`,
		`{"matches":[{"path":"/src/deep/c.txt","line_number":1,"line":"func in text"}],"truncated":false,"skipped":[]}`)
	w.want("grep_files", `{"pattern":"func","path_pattern":"*.go","max_matches":1}`,
		`{"matches":[{"path":"/a.go","line_number":2,"line":"func A() {}"}],"truncated":true,"skipped":[]}`)
	w.want("grep_files", `{"pattern":"func","path_pattern":"src/*.go"}`,
		`{"matches":[{"path":"/src/b.go","line_number":1,"line":"func B() {}"}],"truncated":false,"skipped":[]}`)
	w.want("grep_files", `{"pattern":"nowhere","path_pattern":"**/*.{go,txt}"}`, `{"matches":[],"truncated":false,"skipped":[]}`)
	w.wantError("grep_files", `{"pattern":"("}`, "Invalid pattern: missing closing ): `(`")
	w.wantError("grep_files", `{"pattern":"(?=a)"}`, "Invalid pattern: invalid or unsupported Perl syntax: `(?=`")
	w.wantError("grep_files", `{"pattern":"`+strings.Repeat("a", 1001)+`"}`, "Invalid pattern: it is longer than 1000 bytes")
	w.wantError("grep_files", `{"pattern":"a","path_pattern":"[a"}`, "Invalid pattern: path_pattern is not a valid glob")
}

// found is the result of grep_files.
type found struct {
	Matches []struct {
		Path string
		Line string
	}
	Truncated bool
	Skipped   []struct{ Path, Reason string }
}

func (w *workbench) grep(args string) (f found, size int) {
	w.t.Helper()
	text := w.call("grep_files", args)
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		w.t.Fatal(err)
	}
	return f, len(text)
}

func TestGrepFilesLimits(t *testing.T) {
	t.Parallel()

	t.Run("a large file is skipped and said", func(t *testing.T) {
		w := newWorkbench(t, map[string]string{"/fits": strings.Repeat("a", 512<<10), "/large": strings.Repeat("a", 512<<10+1)})

		got, _ := w.grep(`{"pattern":"a"}`)

		if len(got.Matches) != 1 || len(got.Matches[0].Line) > 1010 || !strings.HasSuffix(got.Matches[0].Line, "…") {
			t.Errorf("got %d matches", len(got.Matches))
		}
		if diff := cmp.Diff([]struct{ Path, Reason string }{{"/large", "larger than 512 KiB"}}, got.Skipped); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the scan ends at 5 MiB, and what is left is said", func(t *testing.T) {
		contents := map[string]string{}
		for i := range 13 {
			contents[fmt.Sprintf("/f%02d", i)] = strings.Repeat("b", 500<<10)
		}
		w := newWorkbench(t, contents)

		got, _ := w.grep(`{"pattern":"a"}`)

		if len(got.Skipped) != 3 || got.Skipped[0].Path != "/f10" || got.Skipped[0].Reason != "the limit of 5 MiB searched was reached" || !got.Truncated {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the result keeps 64 KiB", func(t *testing.T) {
		w := newWorkbench(t, map[string]string{"/f": strings.Repeat(strings.Repeat("\"世\t", 100)+"\n", 900)})

		got, size := w.grep(`{"pattern":"世","max_matches":1000}`)

		if size > 64<<10 || size < 60<<10 || !got.Truncated || !utf8.ValidString(got.Matches[0].Line) {
			t.Errorf("%d bytes, %d matches", size, len(got.Matches))
		}
	})
	t.Run("many skipped files are counted", func(t *testing.T) {
		contents := map[string]string{}
		for i := range 130 {
			contents[fmt.Sprintf("/f%03d", i)] = "\x00"
		}
		w := newWorkbench(t, contents)

		got, _ := w.grep(`{"pattern":"a"}`)

		if last := got.Skipped[len(got.Skipped)-1]; len(got.Skipped) != 101 || last.Reason != "30 more files" {
			t.Errorf("%d skipped, last %+v", len(got.Skipped), last)
		}
	})
}
