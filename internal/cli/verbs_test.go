package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/perdure/perdure/internal/cli/man"
)

// verbFile is the list of verbs that the web UI searches.
const verbFile = "../../ui/src/command/verbs.json"

// TestVerbsOfTheWebUI checks that the web UI knows every verb of the command line with its
// arguments and its help; -update writes the list.
func TestVerbsOfTheWebUI(t *testing.T) {
	t.Parallel()
	type argument struct {
		Name     string `json:"name"`
		Help     string `json:"help"`
		Optional bool   `json:"optional,omitempty"`
		Many     bool   `json:"many,omitempty"`
	}
	type verb struct {
		Verb string     `json:"verb"`
		Args []argument `json:"args"`
		Help string     `json:"help"`
	}
	all := leaves(t)
	var list []verb
	for _, path := range slices.Sorted(maps.Keys(all)) {
		node := all[path]
		v := verb{Verb: man.Path(node), Args: []argument{}, Help: node.Help}
		for _, arg := range node.Positional {
			v.Args = append(v.Args, argument{arg.Name, arg.Help, !arg.Required, arg.IsCumulative()})
		}
		list = append(list, v)
	}
	var want bytes.Buffer
	out := json.NewEncoder(&want)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(list); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(verbFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(verbFile)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not the list of the commands: run  go test ./internal/cli -run TestVerbsOfTheWebUI -update (%v)", verbFile, err)
	}
}
