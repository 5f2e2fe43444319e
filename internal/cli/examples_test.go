package cli

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/cli/man"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestExamplesOfEveryCommand checks that every command has two or three examples.
func TestExamplesOfEveryCommand(t *testing.T) {
	t.Parallel()
	all := Examples()
	if n := len(all[""]); n < 2 || n > 3 {
		t.Errorf("the program has %d examples, want 2 or 3", n)
	}
	known := leaves(t)
	for path := range known {
		if n := len(all[path]); n < 2 || n > 3 {
			t.Errorf("%s has %d examples, want 2 or 3", path, n)
		}
		for _, line := range all[path] {
			if !strings.Contains(line+" ", program+" "+path+" ") {
				t.Errorf("an example of %s is about something else: %s", path, line)
			}
		}
	}
	for path := range all {
		if known[path] == nil && path != "" {
			t.Errorf("there are examples of %q, which is no command", path)
		}
	}
}

// shellWords returns the arguments of the program in each command line, as a shell reads them.
// Other programs of a line are not run, and the files that it reads exist.
func shellWords(t *testing.T, lines []string) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	script := strings.Builder{}
	script.WriteString("exec 3>&1 </dev/null\nperdure() { printf '\\036%s' \"$LINE\" >&3; for word in \"$@\"; do printf '\\037%s' \"$word\" >&3; done; }\n" +
		"git() { :; }\ndate() { :; }\ngzip() { cat >out; }\nhead() { cat >out; }\n")
	for _, name := range []string{"key.txt", "last.jsonl", "arguments.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, line := range lines {
		fmt.Fprintf(&script, "LINE=%d\n%s\n", i, line)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", script.String())
	shell.Dir = dir
	out, err := shell.Output()
	if err != nil {
		t.Fatalf("sh: %v: %s", err, out)
	}
	words := map[string][]string{}
	for _, found := range strings.Split(string(out), "\x1e")[1:] {
		parts := strings.Split(found, "\x1f")
		var i int
		if _, err := fmt.Sscan(parts[0], &i); err != nil {
			t.Fatal(err)
		}
		words[lines[i]] = parts[1:]
	}
	return words
}

// TestExamplesParse parses every example with the grammar of the program, and checks its flags as
// the command does before it opens anything.
func TestExamplesParse(t *testing.T) {
	t.Parallel()
	all := Examples()
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, all[path]...)
	}
	words := shellWords(t, lines)
	for path, examples := range all {
		for _, line := range examples {
			args, ok := words[line]
			if !ok {
				t.Errorf("the program is not run by: %s", line)
				continue
			}
			a := &app{Dependencies: Dependencies{Args: args, DataDir: "/data", Env: func(string) string { return "" }}, out: &stdoutWriter{w: &strings.Builder{}}}
			parsed, _, err := commandParser{a}.parse(commandParser{a}.grammar())
			if err == nil {
				err = checkOutputFlags(parsed)
			}
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			if got := man.Path(parsed.Selected()); got != path && path != "" {
				t.Errorf("%s runs %q, want %q", line, got, path)
			}
		}
	}
}

// TestHelpPages compares help pages with golden files: the program, nouns, and commands with
// arguments, defaults, variables and aliases.
func TestHelpPages(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "run", "ps", "serve", "stop", "session", "session list", "task log", "approve", "deny", "schedule create", "api", "mcp proxy", "file rm"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(strings.TrimSpace(program+" "+line), " ", "-")
			file := filepath.Join("testdata", "help", name+".txt")

			code, got, talk := command{args: line + " --help"}.run(t.Context())

			if code != exitOK || talk != "" {
				t.Fatalf("exit code %d: %s", code, talk)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%v; rewrite it with: go test ./internal/cli -run TestHelpPages -update\ngot:\n%s\nwant:\n%s", err, got, want)
			}
		})
	}
}

// TestHelpOrder checks the order of every page: what the command does, how it is called, examples,
// arguments, its own flags or its commands, and the global flags.
func TestHelpOrder(t *testing.T) {
	t.Parallel()
	all := map[string]bool{}
	for path := range leaves(t) {
		noun, _, _ := strings.Cut(path, " ")
		all[path], all[noun] = true, true
	}
	for path := range all {
		_, page, _ := command{args: path + " --help"}.run(t.Context())
		at := -1
		for _, title := range []string{"Usage: perdure " + path, "\nExamples:\n", "\nArguments:\n", "\nFlags:\n", "\nCommands:\n", "\nGlobal flags ("} {
			found := strings.Index(page, title)
			optional := strings.HasPrefix(title, "\nArg") || strings.HasPrefix(title, "\nFlags") || strings.HasPrefix(title, "\nComm")
			if found < 0 && optional {
				continue
			}
			if found <= at {
				t.Errorf("%s --help: %q is at %d, behind %d, in:\n%s", path, title, found, at, page)
			}
			at = found
		}
		for line := range strings.Lines(page) {
			if wide := columns(strings.TrimSuffix(line, "\n")); wide > helpColumns && !strings.HasPrefix(line, "  "+program+" ") && !strings.HasPrefix(line, "Usage: ") && !strings.Contains(line, "| "+program+" ") {
				t.Errorf("%s --help: a line has %d columns: %s", path, wide, line)
			}
		}
	}
}

// TestHelpGroups checks that the list of commands has each command once, in a group that has a
// title.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	_, page, _ := command{args: "--help"}.run(t.Context())
	for path := range leaves(t) {
		noun, _, _ := strings.Cut(path, " ")
		if n := strings.Count(page, "\n  "+noun+"  "); n != 1 {
			t.Errorf("%s is listed %d times", noun, n)
		}
	}
	for _, group := range commandGroups() {
		if !strings.Contains(page, "\n"+group+":\n  ") {
			t.Errorf("there is no group %q", group)
		}
	}
}

// TestAliases checks the other names of commands: plurals of nouns, and the short forms of verbs.
func TestAliases(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"sessions list": "session list", "sessions ls": "session list", "session rm s": "session delete", "tasks ls": "task list",
		"task logs t": "task log", "logs t": "log", "files list s": "file ls", "file delete s /a": "file rm", "approvals ls": "approval list",
		"budget rm b": "budget remove", "budgets show": "budget show", "harnesses ls": "harness list", "webhooks rm w": "webhook delete",
		"--data x sessions ls": "session list", "deny appr": "deny",
	} {
		a := &app{Dependencies: Dependencies{Args: strings.Fields(line), DataDir: "/data", Env: func(string) string { return "" }}, out: &stdoutWriter{w: &strings.Builder{}}}
		parsed, _, err := commandParser{a}.parse(commandParser{a}.grammar())
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if got := man.Path(parsed.Selected()); got != want {
			t.Errorf("%s runs %q, want %q", line, got, want)
		}
	}
	if code, out, talk := (command{args: "--version"}).run(t.Context()); code != exitOK || !strings.HasPrefix(out, program+" ") {
		t.Errorf("--version: exit code %d, %q, %q", code, out, talk)
	}
}
