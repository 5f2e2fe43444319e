package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// limited is a command line with limits.
type limited struct {
	Limits struct {
		Group struct {
			Slots   Count    `min:"1" max:"9" none:"yes" default:"5" help:"Slots."`
			Bytes   Size     `min:"1KiB" default:"4KiB"`
			Time    Span     `min:"1s" none:"yes" default:"2m"`
			Cost    Money    `none:"yes" unset:"none"`
			Budgets []string `sep:"," unset:"none"`
		} `embed:""`
	} `embed:"" prefix:"limits."`
	Do struct{} `cmd:""`
}

// parsed parses arguments with settings from a file.
func parsed(t *testing.T, file string, project bool, args ...string) (limited, []Problem, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	files := Files{User: path}
	if project {
		files = Files{Project: path}
	}
	count, problems := Load(files, "")
	var line limited
	parser, err := kong.New(&line, kong.PostBuild(PrepareLimits))
	if err != nil {
		t.Fatal(err)
	}
	near := func(name string, names []string) string { return names[0] }
	problems = append(problems, Apply(parser.Model.Node, count, func(string) string { return "" }, near)...)
	_, err = parser.Parse(append(args, "do"))
	if err == nil {
		err = CheckLimits(parser.Model.Node)
	}
	return line, problems, err
}

// TestLimitsOfFiles: a file sets limits, and the command line has precedence.
func TestLimitsOfFiles(t *testing.T) {
	t.Parallel()
	file := "limits:\n  slots: none\n  bytes: 1MiB\n  time: 30d\n  cost: 2.50\n  budgets: {bash: 30s, a.b: none}\n"
	line, problems, err := parsed(t, file, false, "--limits.bytes=2048")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}

	got := line.Limits.Group
	if got.Slots != Unlimited || got.Bytes != 2048 || got.Time != Span(720*time.Hour) || got.Cost != "2.50" {
		t.Errorf("got %+v", got)
	}
	spans, err := Spans(got.Budgets)
	if want := map[string]time.Duration{"bash": 30 * time.Second, "a.b": Unlimited}; err != nil || !cmp.Equal(spans, want) {
		t.Errorf("got %v, %v", spans, err)
	}
}

// TestWrongLimits: each text names the limit, the value and what is allowed.
func TestWrongLimits(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"limits.slots: 10":               "limits.slots: the value 10 is not allowed: use 1 to 9, or none",
		"limits.slots: 0":                `"0": use a whole number from 1`,
		"limits.slots: -1":               `"-1": use a whole number from 1`,
		"limits.slots: 1.5":              `"1.5": use a whole number from 1`,
		"limits.bytes: none":             "limits.bytes: the value none is not allowed: use 1KiB or more",
		"limits.bytes: 1023":             "limits.bytes: the value 1023 is not allowed: use 1KiB or more",
		"limits.bytes: 9999999GiB":       "",
		"limits.bytes: 9999999999999GiB": "use a number of bytes",
		"limits.time: 999ms":             "limits.time: the value 999ms is not allowed: use 1s or more, or none",
		"limits.time: 5":                 `"5": use a duration above 0`,
		"limits.cost: NaN":               `"NaN": use an amount`,
		"limits.cost: 0":                 `"0": use an amount`,
		"limits.cost: 1.1234567":         `use an amount`,
		"limits.budgets: [bash]":         `"bash": use NAME=DURATION`,
		"limits.budgets: {bash: 0}":      `bash: invalid value "0"`,
		"limits.budgets: [a=1s, a=2s]":   "it has a twice",
		"limits.slot: 3":                 "unknown setting limits.slot",
	} {
		_, problems, _ := parsed(t, file, false)
		if want == "" {
			if len(problems) > 0 {
				t.Errorf("%s: %v", file, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) || !strings.Contains(problems[0].Error(), "config.yaml:1") {
			t.Errorf("%s: got %v, want %q", file, problems, want)
		}
	}
	for arg, want := range map[string]string{
		"--limits.slots=10":       "--limits.slots: the value 10 is not allowed: use 1 to 9, or none",
		"--limits.slots=x":        `"x": use a whole number`,
		"--limits.bytes=1":        "--limits.bytes: the value 1 is not allowed: use 1KiB or more",
		"--limits.budgets=a=x":    `a: invalid value "x"`,
		"--limits.budgets=a,b=1s": `"a": use NAME=DURATION`,
	} {
		if _, _, err := parsed(t, "", false, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
	}
}

// TestLimitsOfProjects: a project file sets no limit, nor one entry of one.
func TestLimitsOfProjects(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"limits.slots: 3", "limits: {budgets: {bash: 1h}}"} {
		if _, problems, _ := parsed(t, file, true); len(problems) != 1 || !strings.Contains(problems[0].Message, "project file cannot set") {
			t.Errorf("%s: got %v", file, problems)
		}
	}
	user, project := Setting{Key: "limits.budgets.b", Values: []string{"1s"}}, Setting{Key: "limits.budgets.a", Values: []string{"1h"}, Project: true}
	parser, err := kong.New(&limited{}, kong.PostBuild(PrepareLimits))
	if err != nil {
		t.Fatal(err)
	}
	joined := JoinNamed(map[string]Setting{user.Key: user, project.Key: project}, Keys(parser.Model.Node))
	if !joined["limits.budgets"].Project {
		t.Error("an entry of a project file passes as the user's")
	}
}

// TestLimitSchema: the schema has the bounds.
func TestLimitSchema(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&limited{}, kong.PostBuild(PrepareLimits))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Schema(parser.Model.Node)["properties"].(map[string]any)["limits"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"minimum":1`, `"maximum":9`, `"const":"none"`, `"minimum":1024`, `"default":"5"`, `Allowed: 1 to 9, or none.`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the schema has no %s: %s", want, text)
		}
	}
}

// FuzzLimits: no text makes a limit panic, and what is read is within its type.
func FuzzLimits(f *testing.F) {
	for _, seed := range []string{"", "5", "none", "64KiB", "9223372036854775807GiB", "30d", "65535d", "1h", "2.5", "bash=30s", "=", "a=none"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c Count
		var s Size
		var d Span
		var m Money
		for _, of := range []interface{ UnmarshalText([]byte) error }{&c, &s, &d, &m} {
			_ = of.UnmarshalText([]byte(text)) // an error is an answer
		}
		if c < Unlimited || s < Unlimited || d < Unlimited {
			t.Errorf("%q: %d, %d, %d", text, c, s, d)
		}
		spans, _ := Spans(strings.Split(text, ","))
		for name, span := range spans {
			if name == "" || span == 0 || span < Unlimited {
				t.Errorf("%q: %q has %d", text, name, span)
			}
		}
	})
}
