package shorten_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/shorten"
)

// lineChars is the length of the lines.
const lineChars = 1000

// TestJSON has the line that stands for a value.
func TestJSON(t *testing.T) {
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
		if got := shorten.JSON(json.RawMessage(c.result), lineChars); got != c.want {
			t.Errorf("line of %s: got %q, want %q", c.result, got, c.want)
		}
	}
}

// TestLargeJSON has a line that stays within its length, whatever there is.
func TestLargeJSON(t *testing.T) {
	t.Parallel()
	for _, result := range []string{
		`{"a` + strings.Repeat(`": 1, "b`, 100_000) + `": 1}`,
		`[` + strings.Repeat(`"é", `, 100_000) + `1]`,
		`"` + strings.Repeat("w ", 100_000) + `"`,
	} {
		got := shorten.JSON(json.RawMessage(result), lineChars)
		if n := len([]rune(got)); n < 900 || n > lineChars {
			t.Errorf("%.20s…: %d characters", result, n)
		}
	}
}
