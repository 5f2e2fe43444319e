package perdure

import (
	"errors"
	"strings"
	"testing"
)

func TestTitleFilter(t *testing.T) {
	for _, c := range []struct {
		filter TitleFilter
		title  string
		want   bool
	}{
		{"", "", true},
		{" ", "any", true},
		{"march", "Invoices of March", true},
		{"MARCH inv", "Invoices of March", true},
		{"march april", "Invoices of March", false},
		{"%", "100 percent", false},
		{"%", "100 %", true},
		{"_", "a b", false},
		{`' OR 1=1 --`, "x", false},
		{`\`, `a\b`, true},
		{"zürich", "ZÜRICH", true},
		{"ΣΊΣΥΦΟΣ", "σίσυφος", true},
		{"k", "\u212a", true}, // the sign for Kelvin
		{"\u017f", "S", true}, // the long s
		{"straße", "STRASSE", false},
		{"\x00", "a\x00b", true},
		{"ä", "\xff\xfe ä", true},
	} {
		if got := c.filter.Matcher()(c.title); got != c.want {
			t.Errorf("%q matches %q: %t, want %t", c.filter, c.title, got, c.want)
		}
	}
	for _, f := range []TitleFilter{"\xff", TitleFilter(strings.Repeat("x", MaxTitleFilterBytes+1))} {
		if err := f.Check(); !errors.Is(err, Invalid) {
			t.Errorf("%.10q: got %v", f, err)
		}
	}
}
