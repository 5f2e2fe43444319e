package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRegressions wants every test and law of regressions.md in the file that it names, and every
// law of the group that is called so on the page.
func TestRegressions(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/reference/regressions.md")
	pin := regexp.MustCompile("^`((?:[a-z]+/)?)(\\w+)` in `([a-z0-9_/.]+\\.go)`$")
	var names, laws []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .+ \\| (.+) \\|$").FindAllStringSubmatch(page, -1) {
		if slices.Contains(names, row[1]) {
			t.Errorf("%s has two rows", row[1])
		}
		names = append(names, row[1])
		if row[2] == "not built yet" {
			continue
		}
		for _, text := range strings.Split(row[2], ", ") {
			found := pin.FindStringSubmatch(text)
			if found == nil {
				t.Errorf("%s: %q is no test or law in a file", row[1], text)
				continue
			}
			group, name, file := found[1], found[2], found[3]
			want := "func " + name + "("
			if group != "" {
				want = `{"` + name + `", `
				laws = append(laws, group+name)
			}
			if !exists(file) || !strings.Contains(read(t, file), want) {
				t.Errorf("%s: there is no %s in %s", row[1], group+name, file)
			}
		}
	}
	if rows := strings.Count(page, "\n| `"); len(names) != rows || rows == 0 {
		t.Errorf("%d of %d rows can be read", len(names), rows)
	}
	for _, law := range regexp.MustCompile(`(?m)^\t\t\{"(\w+)", `).FindAllStringSubmatch(read(t, "engine/enginetest/regression.go"), -1) {
		if !slices.Contains(laws, "regression/"+law[1]) {
			t.Errorf("the page does not have the law regression/%s", law[1])
		}
	}
}
