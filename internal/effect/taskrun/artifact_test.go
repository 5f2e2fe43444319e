package taskrun

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestResultContent pins the content of result.json: the result indented, as it came if its
// indentation would exceed the limit, or only its first part if the result itself does (BG14).
func TestResultContent(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 5000) + strings.Repeat("1,", 2000) + "1" + strings.Repeat("]", 5000)
	large := `"` + strings.Repeat("x", resultLimitBytes) + `"`
	for name, c := range map[string]struct {
		result string
		want   Content
	}{
		"small": {`{"a":[1]}`, Content{[]byte("{\n  \"a\": [\n    1\n  ]\n}\n"), 23, false}},
		"deep":  {deep, Content{[]byte(deep), len(deep), false}},
		"large": {large, Content{nil, len(large), true}},
	} {
		got := ResultContent(json.RawMessage(c.result))
		if got.bytes != c.want.bytes || got.cut != c.want.cut || !got.cut && !bytes.Equal(got.Text, c.want.Text) ||
			got.cut && len(got.Text) > 8192 {
			t.Errorf("%s: %d bytes of %d, cut %t: %.60s", name, len(got.Text), got.bytes, got.cut, got.Text)
		}
	}
}

// TestIndentedBytes checks that the bound is never below the size of the indented text.
func TestIndentedBytes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`1`, `"a,{[\"\\"`, `{}`, `[]`, `{"a":{"b":[1,2,{"c":"}"}]},"d":[]}`, `[[[[1]]],2]`} {
		if got, is := indentedBytes([]byte(text)), len(indentJSON(json.RawMessage(text))); got < is {
			t.Errorf("%s: got bound %d, size is %d", text, got, is)
		}
	}
}
