package tooltest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure/tool"
)

// Definitions returns what a model reads of tools: for each its name and description, and its
// parameters.
func Definitions(t testing.TB, tools ...tool.Tool) (definitions txtar.Archive) {
	t.Helper()
	for _, found := range tools {
		spec := found.Spec()
		definitions.Files = append(definitions.Files,
			txtar.File{Name: spec.Name + ".txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)},
			txtar.File{Name: spec.Name + ".json", Data: Indented(t, spec.Parameters)})
	}
	return definitions
}

// Indented returns a schema as a golden file has it.
func Indented(t testing.TB, schema json.RawMessage) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := json.Indent(&text, schema, "", "  "); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// Golden compares an archive with a file of testdata, after it has written the file if update is
// set.
func Golden(t testing.TB, name string, archive txtar.Archive, update bool) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got := txtar.Format(&archive)
	if update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("%s: got -, want + (rewrite it with go test -update):\n%s", path, diff)
	}
}
