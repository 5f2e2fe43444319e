package web

import (
	"strings"
	"testing"
)

// TestBrackets wants opening brackets that nothing closes escaped without a look at all of their
// line: to look for each would take an hour here.
func TestBrackets(t *testing.T) {
	t.Parallel()
	const n = 1 << 18
	for unit, want := range map[string]string{
		"[": `\[`, "&#91;": `\[`, "<b>[</b> ": `**\[** `, "![": `!\[`, "1[": `1\[`,
	} {
		got, err := openPage("<p>"+strings.Repeat(unit, n), from(t)).markdown(t.Context())

		if begins := strings.Repeat(want, n/2); err != nil || !strings.HasPrefix(got, begins) {
			t.Errorf("%q: got %.60q, %v; want %.60q", unit, got, err, begins)
		}
	}
}

// TestBracketOfTheText keeps brackets readable where they cannot begin a link, and harmless where
// they can.
func TestBracketOfTheText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<p>[0, 5)":                       "[0, 5)",
		"<p>a[i]":                         `a\[i]`,
		"<p>[0, 5)<p>(0, 5]":              "[0, 5)\n\n(0, 5]",
		"<p>[" + strings.Repeat("a", 127): "[" + strings.Repeat("a", 127),
		"<p>[" + strings.Repeat("a", 128): `\[` + strings.Repeat("a", 128),
	} {
		if got, err := openPage(text, from(t)).markdown(t.Context()); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}
