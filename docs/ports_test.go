package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinned matches the name of a test, with a script that it plays.
var pinned = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Za-z0-9_]+)(?:/([a-z0-9]+))?`")

// TestPortsArePinned: every test that ports.md names is there, and every script.
func TestPortsArePinned(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("reference/ports.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, found := range pinned.FindAllStringSubmatch(string(page), -1) {
		missing[found[1]] = true
		script := filepath.Join("internal/app/testdata", found[2]+".txtar")
		if found[2] != "" && (found[1] != "TestScripts" || !exists(script)) {
			t.Errorf("ports.md names %s, which is no script", found[0])
		}
	}
	if len(missing) < 30 {
		t.Fatalf("ports.md names %d tests", len(missing))
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)[A-Za-z0-9_]+)\(`)
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
