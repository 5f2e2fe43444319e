package shell

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGoldenTexts compares what a model reads of bash with testdata.
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	spec := describe(tool.DefaultDeadline)
	tooltest.Golden(t, "bash.txtar", txtar.Archive{Files: []txtar.File{
		{Name: "bash.txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)},
		{Name: "parameters.json", Data: tooltest.Indented(t, spec.Parameters)},
		{Name: "output.json", Data: tooltest.Indented(t, spec.OutputSchema)},
	}}, *update)
}
