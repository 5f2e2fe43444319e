package docs_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPortsArePinned: every test that ports.md names is there.
func TestPortsArePinned(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("reference/ports.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, found := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1) {
		missing[found[1]] = true
	}
	if len(missing) < 30 {
		t.Fatalf("ports.md names %d tests", len(missing))
	}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err = fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(".."), path)
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			delete(missing, found[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range missing {
		t.Errorf("ports.md names %s, which is no test", name)
	}
}
