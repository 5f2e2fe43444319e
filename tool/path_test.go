package tool_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

func TestCleanPath(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/":                                   "/",
		"/a":                                  "/a",
		"/a/":                                 "/a",
		"/a/./b":                              "/a/b",
		"/.":                                  "/",
		"/..a/b..":                            "/..a/b..",
		"/.git/hooks":                         "/.git/hooks",
		"/Ä b/世界.txt":                         "/Ä b/世界.txt",
		"/A":                                  "/A",
		"/" + strings.Repeat("a/", 63) + "a":  "/" + strings.Repeat("a/", 63) + "a",
		"/" + strings.Repeat("a", 4095):       "/" + strings.Repeat("a", 4095),
		"/a" + strings.Repeat("/.", 80) + "/": "/a",
	} {
		if got, err := tool.CleanPath(name); got != want || err != nil {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	for _, name := range []string{
		"", "a", "./a", "../a", "/..", "/a/../b", "/a/..", "//", "//a", "/a//b", "/a//", `/a\b`, `C:\a`, "/a\x00b", "/a\nb", "/a\x7f", "/a\u0085",
		"/a\xffb", "/" + strings.Repeat("a", 4096), "/" + strings.Repeat("a/", 64) + "a", strings.Repeat("a", 100_000), "/" + strings.Repeat("世", 2000),
	} {
		got, err := tool.CleanPath(name)

		var fileErr *tool.FileError
		if got != "" || !errors.As(err, &fileErr) || !errors.Is(err, perdure.Invalid) {
			t.Errorf("%.40q: got %q, %v", name, got, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "Invalid path ") || len(err.Error()) > 250 || !utf8.ValidString(err.Error()) {
			t.Errorf("%.40q: %q", name, err)
		}
	}
}

// FuzzCleanPath wants no panic, and a path that is one name: clean again, absolute, without
// anything refused.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/b", "/a/./b/", "/../a", "//", "a", "/a\x00", `/a\`, "/\xff", "/" + strings.Repeat("a/", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := tool.CleanPath(name)
		if err != nil {
			if clean != "" || !errors.Is(err, perdure.Invalid) {
				t.Errorf("got %q, %v", clean, err)
			}
			return
		}
		if again, err := tool.CleanPath(clean); again != clean || err != nil {
			t.Errorf("cleaned again: %q, %v", again, err)
		}
		for _, part := range strings.Split(clean[1:], "/") {
			if part == ".." || part == "." || part == "" && clean != "/" {
				t.Errorf("got %q", clean)
			}
		}
		if clean[0] != '/' || len(clean) > 4096 || strings.ContainsFunc(clean, unicode.IsControl) || strings.Contains(clean, `\`) || !utf8.ValidString(clean) {
			t.Errorf("got %q", clean)
		}
	})
}
