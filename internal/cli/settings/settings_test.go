package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// grammar is a small command line.
type grammar struct {
	Color  string `enum:"auto,never" default:"auto"`
	Server string `env:"A_SERVER_THAT_NOBODY_SETS"`
	Yes    bool
	Run    struct {
		Model        string
		Ask          []string
		AskUntrusted bool
		SoftBudget   time.Duration
	} `cmd:""`
	List struct {
		Limit int `default:"5"`
	} `cmd:""`
}

// TestC12Layers checks the precedence: command line, environment, project, user, default; in each
// file the profile comes first.
func TestC12Layers(t *testing.T) {
	t.Parallel()
	const user = "color: never\nserver: http://user\nlist.limit: 7\nrun:\n  ask: ['a,b', c]\n  soft-budget: 3s\nprofile: p\nprofiles:\n  p: {run: {model: of-p}, list: {limit: 8}}\n  q: {run: {model: of-q}}\n"
	for _, test := range []struct {
		name, project, profile string
		env                    map[string]string
		args                   []string
		want                   grammar
	}{
		{"the user's file, and the profile that it names", "", "", nil, []string{"run"}, grammarOf("never", "http://user", "of-p", 8)},
		{"another profile", "", "q", nil, []string{"run"}, grammarOf("never", "http://user", "of-q", 7)},
		{"the project goes over it", "run: {model: mine}\nlist: {limit: 9}\n", "", nil, []string{"run"}, grammarOf("never", "http://user", "mine", 9)},
		{"the environment goes over both", "color: never\n", "", map[string]string{"NO_COLOR": "1"}, []string{"run"}, grammarOf("auto", "http://user", "of-p", 8)},
		{"the project adds to whom is asked about", "run: {ask: [d, c]}\n", "", nil, []string{"run"}, asking("a,b", "c", "d")},
		{"what is typed goes over all", "run: {model: mine}\n", "", nil, []string{"run", "--model=typed", "--color=auto"}, grammarOf("auto", "http://user", "typed", 8)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			files := write(t, test.project, user)
			line := grammar{}
			parser, err := kong.New(&line)
			if err != nil {
				t.Fatal(err)
			}
			count, faults := Load(files, test.profile)
			faults = append(faults, Apply(parser.Model.Node, count, func(name string) string { return test.env[name] }, nobody)...)
			if _, err := parser.Parse(test.args); err != nil || len(faults) > 0 {
				t.Fatal(err, faults)
			}
			if diff := cmp.Diff(line, test.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func grammarOf(color, server, model string, limit int) grammar {
	g := grammar{Color: color, Server: server}
	g.Run.Model, g.Run.Ask, g.Run.SoftBudget, g.List.Limit = model, []string{"a,b", "c"}, 3*time.Second, limit
	return g
}

// asking is the user's file with other rules.
func asking(rules ...string) grammar {
	g := grammarOf("never", "http://user", "of-p", 8)
	g.Run.Ask = rules
	return g
}

// TestC12Faults checks that each invalid setting is reported with its line, and that no setting is
// applied then.
func TestC12Faults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ project, user, want string }{
		{"", "modle: x\n", "config.yaml:1: unknown setting modle"},
		{"", "color: red\n", `config.yaml:1: color: unknown value "red"`},
		{"", "list:\n  limit: many\n", "config.yaml:2: list.limit: "},
		{"", "color: [auto, never]\n", "config.yaml:1: color: not a list"},
		{"", "color: auto\ncolor: never\n", "config.yaml:2: duplicate setting color"},
		{"", "color:\n", "config.yaml:1: color has no value"},
		{"", "yes: true\n", "config.yaml:1: unknown setting yes"},
		{"", "- a\n", "config.yaml:1: not a mapping of settings"},
		{"", "color: &a never\nserver: *a\n", "config.yaml:2: server is an alias"},
		{"", "run: [\n", "config.yaml: "},
		{"", "profile: none\n", "profile none: unknown profile"},
		{"", "run:\n  ask: [[a]]\n", "config.yaml:2: run.ask is not a list of words"},
		{"server: http://evil\n", "", ".perdure.yaml:1: server: a project file cannot set this"},
		{"run.model: openai:x@http://evil\n", "", ".perdure.yaml:1: run.model: a project file cannot decide which server receives your key"},
		{"run.model: scripted:x.yaml\n", "", ".perdure.yaml:1: run.model: a project file cannot set a script"},
		{"run:\n  model: ' scripted:x.yaml'\n", "", ".perdure.yaml:2: run.model: a project file cannot set a script"},
		{"run: {ask-untrusted: false}\n", "run: {ask-untrusted: true}\n", ".perdure.yaml:1: run.ask-untrusted: a project file can only enable this"},
		{"profile: x\n", "", ".perdure.yaml:1: unknown setting profile"},
		{strings.Repeat(" ", maxBytes) + "\n", "", ".perdure.yaml: the file is larger than 1048576 bytes"},
	} {
		parser, err := kong.New(&grammar{})
		if err != nil {
			t.Fatal(err)
		}
		count, faults := Load(write(t, test.project, test.user), "")
		faults = append(faults, Apply(parser.Model.Node, count, func(string) string { return "" }, nobody)...)
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), test.want) {
			t.Errorf("%.40q %.40q: got %v, want %s", test.project, test.user, faults, test.want)
		}
		for _, flag := range parser.Model.Flags {
			if flag.Name != "help" && flag.Default != "" && flag.Default != "auto" && flag.Default != "never" {
				t.Errorf("%s%s is obeyed: %s is %s", test.project, test.user, flag.Name, flag.Default)
			}
		}
	}
}

// TestC12Find checks that the project's file is found from a folder below it, and not from above
// the project.
func TestC12Find(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	below := filepath.Join(root, "project", "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	mine, others := filepath.Join(root, "project", ProjectFile), filepath.Join(root, ProjectFile)
	for _, path := range []string{mine, others} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := Find(below, root).Project; got != mine {
		t.Errorf("got %s, want %s", got, mine)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "project", ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Find(below, root); got != (Files{}) {
		t.Errorf("got %+v, which is somebody else's", got)
	}
}

func nobody(string, []string) string { return "" }

// write writes the two files. Empty text: no file.
func write(t *testing.T, project, user string) (files Files) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{ProjectFile: project, "config.yaml": user} {
		if text == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == ProjectFile {
			files.Project = path
		} else {
			files.User = path
		}
	}
	return files
}
