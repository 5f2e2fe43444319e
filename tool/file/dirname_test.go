package file

import "testing"

// On a host that folds case, /notes is found as /Notes. The folder's own list says which of them is
// there.
func TestSpelled(t *testing.T) {
	t.Parallel()
	folders := map[string][]string{"/": {"Notes", "e\u0301"}, "/Notes": {"a.md"}, "/notes": {"a.md"}}
	entries := func(dir string) []string { return folders[dir] }
	for name, want := range map[string]bool{
		"/": true, "/Notes": true, "/Notes/a.md": true, "/notes": false, "/notes/a.md": false, "/Notes/A.md": false, "/e\u0301": true, "/\u00e9": false,
	} {
		if got := exactName(name, entries); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

func TestTurnCase(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]rune{'a': 'A', 'A': 'a', 'é': 'É', '1': '1', '/': '/', '世': '世'} {
		if got := swapCase(r); got != want {
			t.Errorf("%c: got %c", r, got)
		}
	}
}
