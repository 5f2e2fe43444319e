package complete

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// grammar is a small command line.
type grammar struct {
	Color string `enum:"auto,never" default:"auto"`
	Task  struct {
		List struct {
			State []string `short:"s"`
			All   bool
		} `cmd:"" aliases:"ls" help:"List tasks."`
		Show struct {
			Task  string   `arg:""`
			Other []string `arg:""`
		} `cmd:""`
		Old struct{} `cmd:"" hidden:""`
	} `cmd:"" aliases:"tasks"`
	Open struct {
		File string `arg:"" type:"path"`
	} `cmd:""`
}

// TestC15Look checks the completions at the end of a line.
func TestC15Look(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                         "task open",
		"t":                        "task",
		"task ":                    "list show",
		"task l":                   "list",
		"task list --":             "--state --all --help --color",
		"task list --al":           "--all",
		"tasks ":                   "list show",
		"tasks ls --al":            "--all",
		"task list --color ":       "auto never",
		"task list --color=n":      "--color=never",
		"task list --color = n":    "never",
		"task list --color =":      "auto never",
		"task list --state ":       "<state>",
		"task list -s ":            "<state>",
		"task list --state=r":      "<state>",
		"task list --all ":         "",
		"task --color never sh":    "show",
		"task show ":               "<task>",
		"task show a ":             "<other>",
		"task show a b c":          "<other>",
		"task show -- --x":         "<task>",
		"open ":                    "<file> :files",
		"nothing here ":            "task open",
		"task list --nothing=":     "",
		"task list --nothing x --": "--state --all --help --color",
	} {
		found := Complete(parser.Model.Node, strings.Split(line, " "))
		var words []string
		for _, w := range found.Words {
			words = append(words, w.Text)
		}
		if found.Of != nil {
			words = append(words, "<"+found.Of.Name+">")
		}
		if found.Files {
			words = append(words, Files)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	if found := Complete(parser.Model.Node, nil); len(found.Words) != 2 {
		t.Errorf("nothing typed: %+v", found)
	}
}
