package urlform_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/urlform"
)

// TestPattern has one URL for each way in which the readings of a path can differ. The lists of the
// root have the table of all patterns.
func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, url      string
		allows, isBlocked bool
	}{
		{"a.test", "http://a.test:8080/x", true, true},
		{"a.test", "http://x.a.test/", false, false},
		{"*.a.test", "http://x.a.test/", true, true},
		{"http://a.test/v1", "http://a.test/v1/x", true, true},
		{"http://a.test/v1", "http://a.test/v10", false, false},
		{"http://a.test/v1/x", "http://a.test//v1//x", false, true},
		{"http://a.test/v1/x", "http://a.test/v1%2fx", false, true},
		{"http://a.test/v1", "http://a.test/%2576%31", false, true},
	} {
		p, err := urlform.ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		u, err := urlform.Normal(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if allows, blocks := p.Allows(u), p.Blocks(u); allows != c.allows || blocks != c.isBlocked {
			t.Errorf("%s, %s: got allows %t, blocks %t; want %t, %t", c.pattern, c.url, allows, blocks, c.allows, c.isBlocked)
		}
	}
	for text := range strings.FieldsSeq("* *. a.test:80 a.test/x http:// ftp://a.test *.10.0.0.1 http://*.a.test/ http://a.test/?q x.*.test 127.1") {
		if p, err := urlform.ParsePattern(text); err == nil {
			t.Errorf("%s: got %+v, want an error", text, p)
		}
	}
}

func TestPatternContains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parent, child string
		want          bool
	}{
		{"*.a.test", "a.test", true}, {"*.a.test", "*.x.a.test", true}, {"a.test", "*.a.test", false}, {"a.test", "https://a.test:8443/x", true},
		{"https://a.test/v1", "https://a.test/v1/x", true}, {"https://a.test/v1", "https://a.test/v10", false}, {"https://a.test/v1", "a.test", false},
	} {
		parent, err := urlform.ParsePattern(c.parent)
		if err != nil {
			t.Fatal(err)
		}
		child, err := urlform.ParsePattern(c.child)
		if err != nil {
			t.Fatal(err)
		}
		if got := parent.Contains(child); got != c.want {
			t.Errorf("%s contains %s: got %t, want %t", c.parent, c.child, got, c.want)
		}
	}
}
