package app

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/cli"
)

// notRunExamples are the examples that TestExamples only reads, by command or by line, each with a
// reason.
func notRunExamples() map[string]string {
	return map[string]string{
		"":      "the same as those of the commands",
		"serve": "runs until it is stopped: testdata/detach.txtar and docs/tutorial.md", "stop": "ends the server of this test: testdata/detach.txtar",
		"dev":        "runs until it is stopped: testdata/dev.txtar",
		"demo crash": "minutes: testdata/demo.txtar", "demo agents": "likewise", "demo approvals": "likewise", "chaos": "likewise: testdata/chaos.txtar",
		"mcp serve": "speaks a protocol: testdata/mcp.txtar", "mcp proxy": "likewise", "mcp test": "starts a program that is not brought",
		"tool init": "writes into the folder where it runs: testdata/tool.txtar", "connection add": "leads to another service: TestConnections",
		"provider test": "leads to another service", "task input": "nothing here asks: TestTaskInput",
		"perdure task attach task_01a1 --tail 0 --exit-status": "prints nothing until its task ends",
		"perdure doctor --server http://127.0.0.1:7373":        "another server",
	}
}

// exampleNames are the invented names of the examples, and the objects of a desk that have their
// place. A name may depend on the command.
func exampleNames(d *desk, path string) map[string]string {
	names := map[string]string{
		"last": "{kept}", "session_01a1": "{kept}", "task_01a1": "Build", "last/call_01a1": "{doubted}", "appr_01a1": "{first}",
		"bdgt_01a1": "{budget}", "pay_01a1": "pay_5ada", "whd_01a1": "{delivery}", "https://example.com/hook": "{hook}", "openai:gpt-5": "{model}",
		"http://localhost:11434/v1": "http://127.0.0.1:1/v1", ".": d.dir, "/v1/sessions/session_01a1/interrupt": "/v1/sessions/{kept}/interrupt",
	}
	noun, _, _ := strings.Cut(path, " ")
	switch {
	case noun == "sql":
		names["last"] = "{tables}"
	case noun == "resource":
		names["last"] = "{doubt}"
	case path == "budget resume":
		names["last"] = "spent"
	case path == "task drain", path == "schedule create": // a session with background work and bash
		names["last"] = "{build}"
	case path == "task detach":
		names["last/call_01a1"] = "{call}"
	case path == "webhook create":
		names["https://example.com/hook"] = "{hook}other"
	case path == "model default":
		names["openai:gpt-5"] = "gate/small"
	case path == "deny":
		names["appr_01a1"] = "{second}"
	case path == "approval deny":
		names["appr_01a1"] = "{third}"
	case strings.HasSuffix(path, "resolve"):
		names["task_01a1"] = "Doubt"
	}
	for _, file := range []string{"notes.txt", "arguments.json", "key.txt", "agent.yaml", "house.yaml", "dot.gif", "last.jsonl", "copy.txt", "copy.gif", "main.sql", "man"} {
		names[file], names["@"+file] = filepath.Join(d.dir, file), "@"+filepath.Join(d.dir, file)
	}
	switch {
	case path == "session export":
		names["last.jsonl"] = filepath.Join(d.dir, "exported.jsonl")
	case noun == "image" && path != "image put":
		delete(names, "dot.gif") // the name of the image
	}
	for _, folder := range []string{"/backups/monday", "/backups/tuesday", "/backups/before", "/srv/perdure", "/srv/other"} {
		names[folder] = filepath.Join(d.dir, folder)
	}
	return names
}

// exampleArguments returns the arguments and the stdin of the program in each example, as a shell
// reads them. Other programs of a line are run.
func exampleArguments(t *testing.T, d *desk, lines []string) (args map[string][]string, stdin map[string]string) {
	t.Helper()
	taken := t.TempDir()
	script := "set -e\ngit() { echo a change; }\nperdure() { printf '%s\\0' \"$@\" >\"$TAKEN/$LINE.args\"; cat >\"$TAKEN/$LINE.stdin\"; }\n"
	for i, line := range lines {
		script += fmt.Sprintf("LINE=%d\n%s\n", i, line)
	}
	dir := t.TempDir() // the files that a shell writes here are not those of the commands
	for _, name := range []string{"key.txt", "arguments.json", "last.jsonl"} {
		text, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		d.write(filepath.Join(dir, name), string(text))
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", script)
	shell.Dir, shell.Env = dir, append(os.Environ(), "TAKEN="+taken)
	if said, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("sh: %v: %s", err, said)
	}
	args, stdin = map[string][]string{}, map[string]string{}
	for i, line := range lines {
		words, err := os.ReadFile(filepath.Join(taken, fmt.Sprint(i)+".args"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		input, err := os.ReadFile(filepath.Join(taken, fmt.Sprint(i)+".stdin"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		args[line], stdin[line] = strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00"), string(input)
	}
	return args, stdin
}

// TestExamples runs the examples of the help against a server that has objects of each kind. What
// would remove an object, or state an outcome once and for all, is a dry run.
func TestExamples(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{"notes.txt": "hello, TODO\n", "arguments.json": `{"message": "hello"}`} {
		d.write(filepath.Join(d.dir, name), text)
	}
	notes := filepath.Join(d.dir, "notes.txt")
	for _, line := range []string{
		"session export doomed --to {dir}/last.jsonl", "value set {kept} color blue", "secret set {kept} BANK_KEY --file {dir}/key.txt",
		"file put {kept} " + notes + " /notes.txt", "file put {kept} " + notes + " /reports/march.txt",
		"provider set gate --kind openai --base-url http://127.0.0.1:1/v1 --key-file {dir}/key.txt --default-model small",
	} {
		d.must(line)
	}
	for _, folder := range []string{"backups", "srv"} {
		if err := os.Mkdir(filepath.Join(d.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]string{ // by command, or by line
		"perdure file mv last /notes.txt /old.txt --dry-run": "file put {kept} " + notes + " /notes.txt",
		"perdure session import - < last.jsonl":              "session delete doomed --yes",
		"event list":                                         "egress allow *.example.org --remove", // which blocks other hosts
		"webhook redeliver":                                  "webhook change {hook} --enable", "run": "session new --model {model} --title talk",
	}
	codes := map[string][]int{"doctor": {1}, "connection test": {6}, "egress test": {1, 6}, "perdure admin gc --vacuum": {5}, "perdure admin scheduler --to local": {5}, "perdure admin rotate-key --data /srv/perdure": {3}}
	all, left := cli.Examples(), notRunExamples()
	for path, examples := range all {
		if left[path] != "" {
			delete(all, path)
		} else {
			all[path] = slices.DeleteFunc(examples, func(line string) bool { return left[line] != "" })
		}
	}
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, all[path]...)
	}
	args, stdin := exampleArguments(t, d, lines)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before[path] != "" {
			d.must(before[path])
		}
		dry := strings.HasSuffix(path, "resolve") || path == "task detach" || path != "doctor" && strings.Contains(d.must("help "+path), "--yes ")
		for _, line := range all[path] {
			if before[line] != "" {
				d.must(before[line])
			}
			second := strings.Contains(path, "deny") && strings.Contains(line, "--note")
			d.example(example{path, line, args[line], stdin[line], dry || second, slices.Concat(codes[path], codes[line])})
		}
	}
}

// example is an example of a command, read by a shell.
type example struct {
	path, line string
	args       []string
	stdin      string
	dry        bool  // it is run with --dry-run
	codes      []int // possible exit codes besides 0
}

// follows reports whether the command does not end by itself.
func (e example) follows() bool {
	verb := e.path[strings.LastIndex(e.path, " ")+1:]
	return slices.Contains([]string{"tail", "watch", "attach"}, verb) ||
		slices.Contains(e.args, "--follow") || slices.Contains(e.args, "--watch")
}

// example runs an example and reports one that fails.
func (d *desk) example(e example) {
	d.t.Helper()
	names := exampleNames(d, e.path)
	if e.dry && strings.HasSuffix(e.path, "deny") {
		names["appr_01a1"] = "{fourth}"
	}
	words := slices.Clone(e.args)
	for i, word := range words {
		if name, ok := names[word]; ok {
			words[i] = d.names.Replace(name)
		}
	}
	if e.dry && !slices.Contains(words, "--dry-run") {
		words = append(words, "--dry-run")
	}
	d.stdin = strings.NewReader(e.stdin)
	defer func() { d.stdin = nil }()
	r := d.runArgs(cli.Terminal{}, words, e.follows())
	if r.code != 0 && !slices.Contains(e.codes, r.code) && !e.follows() || e.follows() && r.out == "" {
		d.t.Errorf("%s\nas perdure %s: exit code %d: %s%s", e.line, r.line, r.code, r.talk, r.out)
	}
}
