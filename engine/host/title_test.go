package host

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// TestCleanTitle makes titles of answers.
func TestCleanTitle(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"A greeting": "A greeting", ` "A greeting" `: "A greeting", "**A\tgreeting**\nand more": "A greeting", "\n\nTitle": "Title",
		"\x1b[31mred\x07": "[31mred", "": "", "\"\"": "", "\xff\xfe": "", strings.Repeat("ä", 200): strings.Repeat("ä", 79) + "…",
	} {
		if got := cleanTitle(answer); got != want {
			t.Errorf("%q: got %q, want %q", answer, got, want)
		}
	}
}

// TestFirstTexts reads the first message of a person and the first answer.
func TestFirstTexts(t *testing.T) {
	t.Parallel()
	agent := func(text string) perdure.Message {
		return perdure.Message{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}}
	}
	asked, answered := firstTexts([]perdure.Message{agent("early"), perdure.Text("one"), agent(""), agent("two"), perdure.Text("three"), agent("four")})
	if asked != "one" || answered != "two" {
		t.Errorf("got %q, %q", asked, answered)
	}
	if asked, _ := firstTexts([]perdure.Message{perdure.Text(strings.Repeat("ä", 3000))}); utf8.RuneCountInString(asked) != titleExcerpt {
		t.Errorf("%d characters", utf8.RuneCountInString(asked))
	}
}

// FuzzCleanTitle: whatever a model answers, the title is short, on one line, and without control
// characters, or there is none.
func FuzzCleanTitle(f *testing.F) {
	for _, answer := range []string{"A greeting", "\"a\"\nb", "\x00\x1b[0m", "\xff", strings.Repeat("x", 500), "\u202e\u2028"} {
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		got := cleanTitle(answer)
		if got != "" && perdure.CheckTitle(got) != nil || utf8.RuneCountInString(got) > titleChars || strings.ContainsFunc(got, func(r rune) bool {
			return unicode.IsControl(r) || r == '\u2028' || r == '\u202e'
		}) {
			t.Errorf("%q: got %q", answer, got)
		}
	})
}
