// Package docs_test checks that the documents are true where a program can tell: links, commands
// and flags, exit codes, events, and the names of the tests and files that they point to.
package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/cli"
)

// root is the module, as this test sees it.
const root = ".."

// TestLinks follows every relative link of every page, and its anchor.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]*)#?([^)\s]*)\)`)
	for name, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(prose(text), -1) {
			target, anchor := found[1], found[2]
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s links to %s#%s, and there is no such heading", name, target, anchor)
			}
		}
	}
}

// TestFiles wants the files that the pages name in passing.
func TestFiles(t *testing.T) {
	t.Parallel()
	file := regexp.MustCompile("`([a-z][a-z0-9_/.-]*\\.(?:go|yaml|sh))`")
	for name, text := range pages(t) {
		if name == "docs/reference/scripted-model.md" { // its scripts are the reader's own
			continue
		}
		for _, found := range file.FindAllStringSubmatch(prose(text), -1) {
			if !exists(found[1]) && !exists("internal/archtest/"+found[1]) {
				t.Errorf("%s names %s, which is not there", name, found[1])
			}
		}
	}
}

// TestRooms compares the tree in architecture.md with the folders that there are, in both
// directions. A folder below a room may stand in the words about the room.
func TestRooms(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(read(t, "docs/architecture.md"), "## Packages\n\n```\nperdure/")
	text, _, _ = strings.Cut(text, "```")
	shown := map[string]bool{".": true}
	var above []string
	for _, line := range strings.Split(text, "\n")[1:] {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		words, inFront := strings.Fields(line), true
		for _, word := range words {
			folder, ok := strings.CutSuffix(strings.TrimRight(word, ",:;."), "/")
			inFront = inFront && ok
			switch {
			case inFront:
				above = append(above[:depth-1], folder)
				shown[filepath.Join(above...)] = true
			case ok:
				for room := range shown { // the words of a line may be about any of its rooms
					if below := filepath.Join(room, folder); exists(below) {
						shown[below] = true
					}
				}
			}
		}
	}
	for folder := range shown {
		if !exists(folder) {
			t.Errorf("architecture.md shows %s, which is not there", folder)
		}
	}
	for _, folder := range goFolders(t) {
		if !shown[folder] {
			t.Errorf("architecture.md does not show %s", folder)
		}
	}
}

// goFolders are the folders with Go files, without those of test data.
func goFolders(t *testing.T) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if folder := filepath.Dir(name); strings.HasSuffix(name, ".go") && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadme keeps the first page short, and its example equal to one that runs.
func TestReadme(t *testing.T) {
	t.Parallel()
	const most = 90
	const beside = "go eng.Run(ctx)" // the example also waits for it
	text := read(t, "README.md")
	if n := strings.Count(text, "\n"); n > most {
		t.Errorf("README.md has %d lines, at most %d fit", n, most)
	}

	rest := squeezed(read(t, "engine/local/example_test.go"))
	for _, line := range strings.Split(blocks(text, "go")[0], "\n") {
		if strings.HasPrefix(line, beside) {
			continue
		}
		_, after, found := strings.Cut(rest, squeezed(line))
		if !found {
			t.Fatalf("ExampleEngine has no %q here", line)
		}
		rest = after
	}
}

// TestHowTos keeps the pieces of the how-tos equal to packages that are built and tested, and in
// their order.
func TestHowTos(t *testing.T) {
	t.Parallel()
	for page, folder := range map[string]string{"write-a-tool": "ledger", "long-tools": "lanes", "approvals": "lanes", "cancelling": "lanes", "webhooks": "webhook", "crash-test-your-tool": "ledger", "embed": "embed"} {
		code := squeezed(read(t, "examples/"+folder+"/"+folder+".go") + read(t, "examples/"+folder+"/"+folder+"_test.go"))
		pieces := blocks(read(t, "docs/how-to/"+page+".md"), "go")
		for _, piece := range pieces {
			before, after, found := strings.Cut(code, squeezed(piece))
			if !found {
				t.Errorf("%s.md: examples/%s has no such piece, or has it elsewhere:\n%s", page, folder, piece)
				continue
			}
			code = before + after
		}
		if len(pieces) == 0 {
			t.Errorf("%s.md has no code", page)
		}
	}
}

// TestRequests wants every request that the pages name or make in the document of the HTTP API.
func TestRequests(t *testing.T) {
	t.Parallel()
	known := operations(t)
	request := regexp.MustCompile("`(GET|POST) (/v1/[^`?\\s]*)")
	seen := 0
	for name, text := range pages(t) {
		asked := request.FindAllStringSubmatch(prose(text), -1)
		for _, command := range curls(text) {
			if path := regexp.MustCompile(`/v1/[^"\s?]*`).FindString(command); path != "" {
				method := "GET"
				if strings.Contains(command, " -d ") || strings.Contains(command, " -X POST") {
					method = "POST"
				}
				if strings.Contains(command, " -X PUT") {
					method = "PUT"
				}
				asked = append(asked, []string{"", method, path})
			}
		}
		for _, one := range asked {
			seen++
			path := regexp.MustCompile(`\{[^}]*\}|\$\w+|\b(task|session|appr|call|sched|webhook)_\w+`).ReplaceAllString(one[2], "{}")
			if !slices.Contains(known, one[1]+" "+path) {
				t.Errorf("%s: openapi.json has no %s %s", name, one[1], one[2])
			}
		}
	}
	if seen == 0 {
		t.Error("no request was found")
	}
}

// TestCommands wants every command line of the pages to be one, with flags that it has.
func TestCommands(t *testing.T) {
	t.Parallel()
	commands := commandHelp(t)
	seen := 0
	for name, text := range pages(t) {
		for _, line := range strings.Split(strings.Join(blocks(text, "sh"), "\n"), "\n") {
			line, _, _ = strings.Cut(line, " # ")
			args, ours := strings.CutPrefix(strings.TrimPrefix(line, "go run ./cmd/"), "perdure ")
			if !ours {
				continue
			}
			seen++
			help, known := commands[commandOf(args, commands)]
			if !known {
				t.Errorf("%s: there is no command %q", name, args)
			}
			args, _, _ = strings.Cut(args, " -- ") // behind it stands a command of somebody else
			for _, flag := range regexp.MustCompile(` (--?[a-z][a-z-]*)`).FindAllStringSubmatch(args, -1) {
				if !hasFlag(help, flag[1]) {
					t.Errorf("%s: %q has no flag %s", name, args, flag[1])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no command line was found")
	}
}

// TestCommandLine wants every command and every flag in cli.md.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/reference/cli.md")
	for command, help := range commandHelp(t) {
		if !strings.Contains(page, "`"+command) && !strings.Contains(page, "## "+command+"\n") {
			t.Errorf("cli.md does not have %s", command)
		}
		for _, flag := range regexp.MustCompile(`(?m)^ .{5}(--[a-z][a-z-]*)`).FindAllStringSubmatch(help, -1) {
			if !strings.Contains(page, "`"+flag[1]+"`") {
				t.Errorf("cli.md does not have %s of %s", flag[1], command)
			}
		}
	}
}

// TestExitCodes wants the table of cli.md to say what help exit-codes says.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "docs/reference/cli.md"), "## Exit codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var page strings.Builder
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		page.WriteString(row[1] + " " + strings.ReplaceAll(row[2], "`", "") + "\n")
	}

	help := regexp.MustCompile(`\n +`).ReplaceAllString(prints(t, "help", "exit-codes"), " ")
	help = regexp.MustCompile(` +`).ReplaceAllString(help, " ")

	if diff := cmp.Diff(help, page.String()); diff != "" {
		t.Errorf("exit codes (-help +page):\n%s", diff)
	}
}

// TestEvents wants every type of event in events.md, with the fields that it has.
func TestEvents(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	facts := ""
	for _, file := range files {
		facts += read(t, filepath.Base(file))
	}
	want := map[string]string{}
	for _, kind := range regexp.MustCompile(`func \((\w+)\) EventType\(\) EventType \{ return "([^"]+)" \}`).FindAllStringSubmatch(read(t, "eventtype.go"), -1) {
		_, fields, _ := strings.Cut(facts, "type "+kind[1]+" struct {\n")
		fields, _, _ = strings.Cut(fields, "\n}")
		if embedded := regexp.MustCompile(`^\t(\w+)$`).FindStringSubmatch(fields); embedded != nil {
			_, fields, _ = strings.Cut(facts, "type "+embedded[1]+" struct {\n")
			fields, _, _ = strings.Cut(fields, "\n}")
		}
		var names []string
		for _, field := range regexp.MustCompile(`json:"([^",]+)`).FindAllStringSubmatch(fields, -1) {
			names = append(names, "`"+field[1]+"`")
		}
		want[kind[2]] = strings.Join(names, " ")
	}

	got := map[string]string{}
	page, _, _ := strings.Cut(read(t, "docs/reference/events.md"), "## Frames")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_.]+)` \\| .* \\| (.*) \\|$").FindAllStringSubmatch(page, -1) {
		got[row[1]] = row[2]
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-code +page):\n%s", diff)
	}
}

// TestGuarantees wants the laws and tests that the pages name.
func TestGuarantees(t *testing.T) {
	t.Parallel()
	laws, tests := sources(t, "/enginetest/", "/storetest/"), sources(t, "_test.go")
	named := 0
	for _, name := range []string{"docs/guarantees.md", "docs/architecture.md", "docs/security.md"} {
		text := read(t, name)
		for _, law := range regexp.MustCompile("`[a-z]+/([a-z0-9]+_[a-z0-9_]+|[A-Z][A-Za-z0-9]+)`").FindAllStringSubmatch(text, -1) {
			named++
			if !strings.Contains(laws, `{"`+law[1]+`",`) {
				t.Errorf("%s names the law %s, which is not there", name, law[1])
			}
		}
		for _, test := range regexp.MustCompile("`(Test[A-Za-z0-9]+)").FindAllStringSubmatch(text, -1) {
			named++
			if !strings.Contains(tests, "func "+test[1]+"(") {
				t.Errorf("%s names %s, which is not there", name, test[1])
			}
		}
	}
	if named == 0 {
		t.Error("no law was found")
	}
}

// pages returns README.md and all of docs, by their paths in the module.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		all[name] = read(t, name)
	}
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			all[name] = read(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// sources joins the Go files whose paths contain one of the parts.
func sources(t *testing.T, parts ...string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		wanted := func(part string) bool { return strings.Contains(name, part) }
		if err == nil && strings.HasSuffix(name, ".go") && slices.ContainsFunc(parts, wanted) {
			all.WriteString(read(t, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// prose returns a page without its blocks of code.
func prose(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
}

// blocks returns a page's blocks of code in one language.
func blocks(text, language string) []string {
	var all []string
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)\n```").FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// curls returns the commands of a page that ask a server, each with the lines that it goes on in.
func curls(text string) []string {
	var all []string
	for _, block := range []string{strings.Join(blocks(text, "sh"), "\n"), strings.Join(blocks(text, ""), "\n")} {
		for _, line := range strings.Split(strings.ReplaceAll(block, "\\\n", " "), "\n") {
			if strings.HasPrefix(line, "curl ") {
				all = append(all, line)
			}
		}
	}
	return all
}

// operations returns what the document of the HTTP API has, with its parameters as {}.
func operations(t *testing.T) []string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(read(t, "docs/reference/openapi.json")), &document); err != nil {
		t.Fatal(err)
	}
	var all []string
	for path, methods := range document.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "{}"))
		}
	}
	return all
}

// anchors returns what the headings of a page can be linked by.
func anchors(text string) []string {
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(text), -1) {
		slug := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// prints runs a command that needs no data directory and returns what it prints.
func prints(t *testing.T, args ...string) string {
	t.Helper()
	var out, talk bytes.Buffer
	log := func(cli.LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) }
	world := cli.Dependencies{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &talk, Log: log}
	if code := cli.Main(context.Background(), world); code != 0 {
		t.Fatalf("perdure %s: exit code %d: %s", strings.Join(args, " "), code, talk.String())
	}
	return out.String()
}

// commandHelp returns the help of every command.
func commandHelp(t *testing.T) map[string]string {
	t.Helper()
	row := regexp.MustCompile(`(?m)^ {2}([a-z-]+(?: [a-z-]+)?)(?: {2,}|$)`)
	_, list, _ := strings.Cut(prints(t, "--help"), "\nStart here:\n")
	all := map[string]string{}
	for _, noun := range row.FindAllStringSubmatch(list, -1) {
		help := prints(t, noun[1], "--help")
		_, verbs, isNoun := strings.Cut(help, "\nCommands:\n")
		if !isNoun {
			all[noun[1]] = help
			continue
		}
		for _, command := range row.FindAllStringSubmatch(verbs, -1) {
			all[command[1]] = prints(t, append(strings.Fields(command[1]), "--help")...)
		}
	}
	return all
}

// commandOf returns the command that a line begins with.
func commandOf(line string, commands map[string]string) string {
	for command := range maps.Keys(commands) {
		if line == command || strings.HasPrefix(line, command+" ") {
			return command
		}
	}
	return ""
}

// hasFlag reports whether a help page describes a flag, or names it among the global ones.
func hasFlag(help, flag string) bool {
	return regexp.MustCompile(`(?m)^ +(?:-[a-z], +)?` + flag + `\b|^ .*` + flag + `(?:,|$)`).MatchString(help)
}
