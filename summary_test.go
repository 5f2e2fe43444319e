package perdure_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// TestSummarise has the line that stands for a result.
func TestSummarise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ result, want string }{
		{`"a  text\nof two lines"`, "a text of two lines"},
		{`{"exit_code": 0, "stdout": "a\n b", "stderr": "", "more": {"a": 1}, "list": [1, [2]], "none": null}`,
			"exit_code: 0; stdout: a b; stderr: empty; more: 1 field; list: 2 items; none: nothing"},
		{`[1, "two", {"a": 1}]`, "3 items: 1; two"},
		{`[{}]`, "1 item"},
		{`{}`, "no fields"},
		{`[]`, "no items"},
		{`null`, "nothing"},
		{`12`, `12`},
		{`cut off`, ``},
		{``, ``},
		{`{"long": "` + strings.Repeat("é", 2000) + `", "after": true}`, "long: " + strings.Repeat("é", 300) + "…; after: true"},
		{`"` + strings.Repeat("é", 1200) + `"`, strings.Repeat("é", 1000)},
	} {
		if got := perdure.Summarise(json.RawMessage(c.result)); got != c.want {
			t.Errorf("summary of %s: got %q, want %q", c.result, got, c.want)
		}
	}
}

// TestSummaryOfALargeResult has a summary that stays within its length, whatever there is.
func TestSummaryOfALargeResult(t *testing.T) {
	t.Parallel()
	for _, result := range []string{
		`{"a` + strings.Repeat(`": 1, "b`, 100_000) + `": 1}`,
		`[` + strings.Repeat(`"é", `, 100_000) + `1]`,
		`"` + strings.Repeat("w ", 100_000) + `"`,
	} {
		got := perdure.Summarise(json.RawMessage(result))
		if n := len([]rune(got)); n < 900 || n > perdure.MaxSummaryChars {
			t.Errorf("%.20s…: %d characters", result, n)
		}
	}
}

// TestBriefIsTheToolsOwn has the tool's own summary stand for a result, in one line.
func TestBriefIsTheToolsOwn(t *testing.T) {
	t.Parallel()
	r := perdure.ToolResult{Result: json.RawMessage(`{"n":1}`)}
	if got := r.Brief(); got != "n: 1" {
		t.Errorf("without one: %q", got)
	}
	r.Summary = " 3 services\n deployed"
	if got := r.Brief(); got != "3 services deployed" {
		t.Errorf("with one: %q", got)
	}
}
