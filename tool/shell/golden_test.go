package shell

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure/tool"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGoldenTexts compares what a model reads of bash with testdata.
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	spec := describe(tool.DefaultDeadline)
	archive := txtar.Archive{Files: []txtar.File{{Name: "bash.txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)}}}
	add := func(name string, schema json.RawMessage) {
		var text bytes.Buffer
		if err := json.Indent(&text, schema, "", "  "); err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: text.Bytes()})
	}
	add("parameters.json", spec.Parameters)
	add("output.json", spec.OutputSchema)
	path := filepath.Join("testdata", "bash.txtar")
	got := txtar.Format(&archive)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("got -, want + (rewrite it with go test ./tool/shell -update):\n%s", diff)
	}
}
