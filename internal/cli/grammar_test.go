package cli

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestC13Grammar compares each command parsed with the grammar of its noun alone with the same
// command parsed with the full grammar. Lines about several nouns and wrong lines use the full
// grammar.
func TestC13Grammar(t *testing.T) {
	t.Parallel()
	for path := range leaves(t) {
		var want bytes.Buffer
		a := &app{Dependencies: Dependencies{Stderr: &want, DataDir: "/data"}, out: &stdoutWriter{w: &want}}
		whole, err := kong.New(&commandLine{}, commandParser{a}.options(func(int) {})...)
		if err != nil {
			t.Fatal(err)
		}
		// the help is printed before missing arguments are reported
		_, _ = whole.Parse(append(strings.Fields(path), "--help"))
		code, out, talk := command{args: path + " --help"}.run(t.Context())
		if code != exitOK || out != want.String() || out == "" {
			t.Errorf("%s --help: exit code %d, %s%s\nwant %s", path, code, out, talk, want.String())
		}
	}
	for _, line := range []string{"", "-h", "--help"} {
		a := &app{Dependencies: Dependencies{Args: strings.Fields(line)}}
		if len(a.Args) > 0 && !(commandParser{a}).isListCommand() {
			t.Errorf("%q does not ask for the list of the commands alone", line)
		}
		_, want, _ := command{args: "help"}.run(t.Context()) // it needs the full grammar
		if code, out, talk := (command{args: line}).run(t.Context()); code != exitOK || out != want || !strings.Contains(out, "\nConfigure:\n") {
			t.Errorf("%q: exit code %d, %s%s\nwant %s", line, code, out, talk, want)
		}
	}
	for line, want := range map[string]string{
		"session list": "session", "--data x --no-input session list": "session", "--data=x --verbose -h task": "task", "ps --prompt": "ps", "sessions ls": "sessions",
		"": "", "--help": "", "help task": "", "config list": "", "__complete -- task": "", "--data task": "", "--nonsense task list": "list", // not a command
	} {
		a := &app{Dependencies: Dependencies{Args: strings.Fields(line)}}
		if got := (commandParser{a}).noun(); got != want {
			t.Errorf("%q is about %q, want %q", line, got, want)
		}
	}
	if grammarOf("sessions").Type() != grammarOf("session").Type() {
		t.Error("the plural of a noun has another grammar")
	}
	if grammarOf("session").Type() == reflect.TypeFor[*commandLine]() || grammarOf("sesion").Type() != reflect.TypeFor[*commandLine]() {
		t.Error("a noun has a grammar of its own, and what is none has the whole one")
	}
	for _, line := range []string{"--nonsense --help", "--data /x --help", "--help -h", "help", ""} {
		a := &app{Dependencies: Dependencies{Args: strings.Fields(line)}}
		if (commandParser{a}).isListCommand() {
			t.Errorf("%q is read with the list of the commands alone", line)
		}
	}
	if got := len(boolFlags()); got != 6 {
		t.Errorf("%d switches: %v", got, boolFlags())
	}
}
