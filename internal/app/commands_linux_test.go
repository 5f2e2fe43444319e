package app

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/redact"
)

// desk runs commands in this process against a server in another process that has at least one
// object of each kind.
type desk struct {
	*doorway
	names *strings.Replacer // replaces the placeholders of samples with objects of the server: {kept} is a session
	dir   string            // for the files that commands write
	stdin io.Reader         // of commands; nil: one that must not be read
}

// ran is the result of a command.
type ran struct {
	line, out, talk string
	code            int
}

// untyped is a terminal without input.
type untyped struct {
	t    *testing.T
	line string
}

func (u untyped) Read([]byte) (int, error) {
	u.t.Errorf("perdure %s waits for somebody to type, although --no-input was given", u.line)
	return 0, io.EOF
}

// heardFirst is a stdout that ends a command once it has printed a line.
type heardFirst struct {
	bytes.Buffer
	end func()
}

func (h *heardFirst) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\n")) && h.end != nil {
		defer h.end()
	}
	return h.Buffer.Write(p)
}

// run runs a command line on a terminal that cannot be asked. A stream is stopped after its first
// output.
func (d *desk) run(line string, stream bool) ran {
	d.t.Helper()
	return d.runAt(cli.Terminal{Stdin: true, Stderr: true}, line, stream)
}

// runAt is run with the given streams.
func (d *desk) runAt(at cli.Terminal, line string, stream bool) ran {
	d.t.Helper()
	line = d.names.Replace(line)
	return d.runArgs(at, append([]string{"--no-input"}, strings.Fields(line)...), stream)
}

// runWith runs a command line that may ask, with the given streams.
func (d *desk) runWith(at cli.Terminal, line string) ran {
	d.t.Helper()
	return d.runArgs(at, strings.Fields(d.names.Replace(line)), false)
}

// runArgs runs a command with these arguments.
func (d *desk) runArgs(at cli.Terminal, args []string, stream bool) ran {
	d.t.Helper()
	line := strings.TrimPrefix(strings.Join(args, " "), "--no-input ")
	ctx, stop := context.WithTimeout(d.t.Context(), waitTime)
	defer stop()
	out, talk := &heardFirst{}, &bytes.Buffer{}
	if stream {
		out.end = stop
	}
	w := Program{}.dependencies(at, redact.NewSet())
	w.Args, w.DataDir = args, d.data
	w.Stdin, w.Stdout, w.Stderr = untyped{d.t, line}, out, talk
	if d.stdin != nil {
		w.Stdin = d.stdin
	}
	w.Env = func(name string) string { return map[string]string{"HOME": d.dir, "XDG_CONFIG_HOME": d.dir}[name] }
	w.Log = func(cli.LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) }
	code := cli.Main(ctx, w)
	if !stream && ctx.Err() != nil {
		d.t.Errorf("perdure %s does not end within %s", line, waitTime)
	}
	return ran{line, out.String(), talk.String(), code}
}

// must runs a command line that succeeds, and returns its output without the line end.
func (d *desk) must(line string) string {
	d.t.Helper()
	r := d.run(line, false)
	if r.code != 0 {
		d.t.Fatalf("perdure %s: exit code %d: %s", r.line, r.code, r.talk)
	}
	return strings.TrimSuffix(r.out, "\n")
}

// values reads a stream of JSON values, like jq.
func (r ran) values() (all []any, err error) {
	decoder := json.NewDecoder(strings.NewReader(r.out))
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		all = append(all, value)
	}
}

// commandsOf reads the list of commands from the help.
func (d *desk) commandsOf() (all []string) {
	d.t.Helper()
	row := regexp.MustCompile(`(?m)^ {2}([a-z]+(?: [a-z-]+)?)(?: {2,}|$)`)
	_, list, _ := strings.Cut(d.must("--help"), "\nStart here:\n")
	for _, noun := range row.FindAllStringSubmatch(list, -1) {
		_, verbs, isNoun := strings.Cut(d.must("help "+noun[1]), "\nCommands:\n")
		if !isNoun {
			all = append(all, noun[1])
		}
		for _, found := range row.FindAllStringSubmatch(verbs, -1) {
			all = append(all, found[1])
		}
	}
	if len(all) < 80 {
		d.t.Fatalf("only %d commands were found: %v", len(all), all)
	}
	return all
}

// deskScript is the agent of every session: it follows the instructions of its message.
const deskScript = `
rules:
  - when: {last_role: notification}
    text: It is home.
  - when: {user_contains: table, last_role: user, not_called: sql_execute}
    calls: [{name: sql_execute, args: {sql: "CREATE TABLE t AS SELECT 7 AS n"}}]
  - when: {user_contains: build, last_role: user, not_called: spawn_background}
    calls:
      - {name: spawn_background, args: {tool: bash, title: Build, args: {command: "echo begun; sleep 600"}}}
      - {name: spawn_background, args: {tool: bash, title: Other, args: {command: "echo begun; sleep 600"}}}
  - when: {user_contains: doubt, last_role: user, not_called: bash}
    calls:
      - {name: spawn_background, args: {tool: bash, title: Doubt, args: {command: "sleep 600"}}}
      - {name: spawn_background, args: {tool: bash, title: Again, args: {command: "sleep 600"}}}
      - {name: bash, args: {command: "sleep 600"}}
  - when: {user_contains: wait, last_role: user, not_called: bash}
    calls: [{name: bash, args: {command: "sleep 600"}}]
  - when: {user_contains: ask, last_role: user, not_called: echo}
    calls:
      - {name: echo, args: {message: one}}
      - {name: echo, args: {message: two}}
      - {name: echo, args: {message: three}}
      - {name: echo, args: {message: four}}
steps:
  - {text: "Hello.", usage: {input_tokens: 3, output_tokens: 5}, repeat: true}
`

// newDesk starts a server, and creates objects of each kind that commands need.
func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{doorway: newDoorway(t, nil), dir: t.TempDir(), names: strings.NewReplacer()}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(hook.Close)
	model := d.script(deskScript)
	d.write(filepath.Join(d.data, "mcp.json"), `{"agents": {"helper": {"model": "`+model+`", "instructions": "You help."}}, "mcpServers": {"wiki": {"command": "none-such"}}}`)
	d.write(filepath.Join(d.dir, "hello.txt"), "hello\n")
	d.write(filepath.Join(d.dir, "agent.yaml"), "name: applied\nsystem_prompt: You read.\n")
	d.write(filepath.Join(d.dir, "written.yaml"), "name: written\n")
	d.write(filepath.Join(d.dir, "house.yaml"), "name: house\n")
	d.write(filepath.Join(d.dir, "harness.yaml"), "name: layer\nparent: house\nsystem_prompt: You are brief.\n")
	d.write(filepath.Join(d.dir, "word.yaml"), "steps:\n  - text: ok\n")
	d.write(filepath.Join(d.dir, "key.txt"), "s3cr3t\n")
	d.must("egress allow --webhook " + strings.TrimPrefix(hook.URL, "http://") + " --data " + d.data)
	d.serve = []string{"--ask", "echo"}
	d.start()

	said := func(name string) string {
		id := d.begin(model, name)
		d.insist(say(id, name+"-said", name))
		return string(id)
	}
	doubt := said("doubt")
	d.until("three commands of doubt", func() bool { return alive(t, d.data) == 3 })
	d.kill()
	killCommands(d.data)
	d.stands("testdata/resource.sql", doubt)
	d.stands("testdata/payment.sql", doubt)
	d.start()
	d.until("two outcomes nobody knows", func() bool {
		return d.must("session show "+doubt+" --jq .unknown_calls") != "0" && d.must("task list --session "+doubt+" --state unknown -o name") != ""
	})

	kept, build, wait, ask := d.must("session new --model "+model+" --title kept -o name"), said("build"), said("wait"), said("ask")
	d.must("session send " + kept + " hello")
	d.rest(perdure.SessionID(kept))
	d.until("tasks, a call, and questions", func() bool {
		return d.must("task list --session "+build+" --state running --jq length") == "2" && alive(t, d.data) == 3 && d.must("approval list --jq length") == "4"
	})
	d.must("agent apply " + filepath.Join(d.dir, "written.yaml"))
	d.must("harness apply " + filepath.Join(d.dir, "house.yaml"))
	d.must("file put " + kept + " " + filepath.Join(d.dir, "hello.txt") + " /hello.txt")
	d.must("value set " + kept + " colour blue")
	d.write(filepath.Join(d.dir, "dot.gif"), "GIF89a\n")
	d.write(filepath.Join(d.dir, "other.gif"), "GIF89a other\n")
	d.write(filepath.Join(d.dir, "query.sql"), "SELECT n FROM t")
	d.must("image put " + kept + " " + filepath.Join(d.dir, "dot.gif"))
	tables := d.must("session new --model " + model + " --title tables --capability session_sql -o name")
	d.must("session send " + tables + " table --wait")
	d.must("schedule create @daily --session " + kept + " --message hello --title daily")
	d.must("budget set session " + kept + " --limit 5")
	d.must("token create reader --scope read")
	d.must("webhook create " + hook.URL + "/ --type turn.failed")
	d.must("webhook test " + hook.URL + "/")
	d.must("session new --model " + model + " --title doomed")
	d.must("session export doomed --to " + filepath.Join(d.dir, "doomed.jsonl"))
	d.must("session new --model " + model + " --title spent")
	d.must("budget set session spent --limit 100 --soft 1 --currency tokens --action pause")
	d.must("session send spent hello --wait")
	d.must("session send spent more")
	d.until("a budget that pauses", func() bool { return d.must("event list spent --type budget.paused -o name") != "" })
	approvals := strings.Fields(d.must("approval list -o name"))
	d.names = strings.NewReplacer("{kept}", kept, "{tables}", tables, "{build}", build, "{doubt}", doubt, "{model}", model, "{dir}", d.dir, "{hook}", hook.URL+"/",
		"{call}", wait+"/"+d.must("call list "+wait+" --jq .[].key.call_id"),
		"{doubted}", doubt+"/"+d.must("call list "+doubt+` --jq .[]|select(.state=="unknown"and(.tool=="bash")and(.task_id==null)).key.call_id`),
		"{ask}", ask, "{first}", approvals[0], "{second}", approvals[1], "{third}", approvals[2], "{fourth}", approvals[3],
		"{budget}", d.must("budget show session kept -o name"), "{delivery}", d.must("webhook deliveries "+hook.URL+"/ -o name"))
	return d
}

// stands gives a session something that normally only its tools can make.
func (d *desk) stands(file, session string) {
	d.t.Helper()
	statement, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(d.data, "perdure.db"))
	if err == nil {
		_, err = db.Exec(string(statement), session)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// alive counts the commands that run under a supervisor.
func alive(t *testing.T, data string) (n int) {
	t.Helper()
	all, err := processesIn(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.State == "alive" && p.PID != 0 {
			n++
		}
	}
	return n
}

// write writes a file and its folder.
func (d *desk) write(path, text string) {
	d.t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestC01Commands runs every command with -o json against a server that has objects of each kind:
// stdout is JSON that jq reads, one value, or one line each if the command is a stream. Other
// commands are listed with a reason.
func TestC01Commands(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	others := otherCommands()
	var missing []string
	ran, held := map[string]bool{}, 0
	schemas := newSchemas(t)
	for _, s := range samples() {
		r := d.run(s.line+" -o json", s.stream)
		command := strings.TrimSpace(s.command())
		ran[command] = true
		values, err := r.values()
		switch {
		case !slices.Contains(append(s.codes, 0), r.code) && !s.stream:
			t.Errorf("perdure %s: exit code %d: %s%s", r.line, r.code, r.talk, r.out)
		case err != nil || len(values) == 0:
			t.Errorf("perdure %s: %v in %q, %s", r.line, err, r.out, r.talk)
		case len(values) > 1 && !s.stream:
			t.Errorf("perdure %s prints %d values, and is no stream", r.line, len(values))
		}
		if s.is != "" && len(values) == 1 {
			schemas.holds(t, s, r, values[0])
			held++
		}
	}
	for _, command := range d.commandsOf() {
		if _, other := others[command]; !ran[command] && !other {
			missing = append(missing, command)
		}
		delete(others, command)
	}
	if len(missing) > 0 || len(others) > 0 {
		t.Errorf("no sample runs %v, which need one or a reason; there are no such commands: %v", missing, others)
	}
	t.Logf("%d commands were run with -o json, and %d of them held against the schema of the API; %d print something else", len(ran), held, len(otherCommands()))
}

// TestC02Forms prints every list and show in every format, and checks that they agree: lines of
// JSON, YAML, the results of jq and of a template, selected fields, only the id, and empty results.
func TestC02Forms(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("secret set {kept} BANK_KEY --file {dir}/key.txt")
	d.must("connection add github --token --host api.github.com --file {dir}/key.txt")
	d.must("provider set gate --kind openai --base-url http://127.0.0.1:1/v1 --key-file {dir}/key.txt --default-model small")
	told := 0
	for _, s := range samples() {
		if !s.tells() {
			continue
		}
		told++
		whole := d.run(s.line+" -o json", false)
		values, err := whole.values()
		if err != nil || len(values) != 1 {
			t.Errorf("perdure %s: %v, %d values", whole.line, err, len(values))
			continue
		}
		want := shape(values[0])
		form := func(flags string, read func(ran) (any, error)) {
			t.Helper()
			r := d.run(s.line+" "+flags, false)
			got, err := read(r)
			if r.code != whole.code || err != nil || !cmp.Equal(shape(got), want) {
				t.Errorf("perdure %s: exit code %d, want %d; %v: %s (-got +want):\n%s", r.line, r.code, whole.code, err, r.talk, cmp.Diff(shape(got), want))
			}
		}
		form("--jq .", ran.first)
		form("--template {{.|json}}", ran.first)
		form("-o yaml", ran.yaml)
		form("-o jsonl", func(r ran) (any, error) {
			lines, err := r.values()
			if _, list := want.([]any); !list && len(lines) == 1 {
				return lines[0], err
			}
			return append([]any{}, lines...), err
		})
		if r := d.run(s.line+" -o none", false); r.out != "" || r.code != whole.code {
			t.Errorf("perdure %s prints %q: exit code %d", r.line, r.out, r.code)
		}
		if r := d.run(s.line+" -o name", false); r.code != whole.code || strings.ContainsAny(r.out, "{[") {
			t.Errorf("perdure %s prints %q: exit code %d, %s", r.line, r.out, r.code, r.talk)
		}
		for name, value := range fieldsOf(values[0]) {
			want = map[string]any{name: shape(value)}
			form("--json "+name, func(r ran) (any, error) {
				got, err := r.first()
				return oneOf(got), err
			})
			break // any one
		}
		if r := d.run(s.line+" --json no_such_field", false); r.code != 2 || r.out != "" {
			t.Errorf("perdure %s: exit code %d, want 2: %s", r.line, r.code, r.out)
		}
	}
	if told < 30 {
		t.Errorf("only %d commands tell something", told)
	}
	t.Logf("%d lists and shows, in each form", told)
}

// first is the single value of the output.
func (r ran) first() (any, error) {
	all, err := r.values()
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("%d values: %w", len(all), err)
	}
	return all[0], nil
}

func (r ran) yaml() (value any, err error) {
	err = yaml.Unmarshal([]byte(r.out), &value)
	return value, err
}

// shape is a value with each text, number and so on replaced by its kind: running work changes
// between two reads.
func shape(value any) any {
	switch v := value.(type) {
	case []any:
		all := []any{}
		for _, one := range v {
			all = append(all, shape(one))
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for name, one := range v {
			all[name] = shape(one)
		}
		return all
	case string, time.Time:
		return "text"
	case bool:
		return "bool"
	case nil:
		return nil
	}
	return "number"
}

// oneOf is the first element of a list, or the value itself.
func oneOf(value any) any {
	if list, ok := value.([]any); ok && len(list) > 0 {
		return list[0]
	}
	return value
}

func fieldsOf(value any) map[string]any {
	fields, _ := oneOf(value).(map[string]any)
	return fields
}

// destroying returns the command lines that need confirmation, each with a command that shows
// whether it was done.
func destroying() [][2]string {
	return [][2]string{
		{"task cancel Build", "task list"}, {"cancel Other", "task list"},
		{"approve {first}", "approval list --all"}, {"approval approve {second}", "approval list --all"},
		{"schedule backfill daily --from 2026-01-01T00:00:00Z --to 2026-01-02T12:00:00Z", "schedule list"}, {"schedule delete daily", "schedule list"},
		{"budget remove {budget}", "budget show"}, {"session delete doomed", "session list --jq [.[].id]"}, {"token revoke reader", "token list"},
		{"file rm {kept} /hello.txt", "file ls {kept}"}, {"image rm {kept} dot.gif", "image list {kept}"}, {"value delete {kept} colour", "value list {kept}"}, {"secret delete {kept} BANK_KEY", "secret list {kept}"},
		{"resource release {doubt} box", "resource list {doubt}"}, {"webhook delete {hook}", "webhook list"},
		{"agent delete written", "agent list"}, {"harness delete house", "harness list"}, {"provider delete gate", "provider list"},
		{"connection delete github", "connection list --jq [.[]|select(.kind==\"account\")|.name]"},
	}
}

// TestC10Destroys runs every command that needs confirmation against a server: a dry run, and
// --no-input without --yes, change nothing and do not wait, on a terminal and in a pipe; --yes runs
// it without asking.
func TestC10Destroys(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("secret set {kept} BANK_KEY --file {dir}/key.txt")
	d.must("connection add github --token --host api.github.com --file {dir}/key.txt")
	d.must("provider set gate --kind openai --base-url http://127.0.0.1:1/v1 --key-file {dir}/key.txt --default-model small")
	asks := map[string]bool{
		"doctor":       true, // the killed process is outside every store: testdata/processes.txtar
		"session move": true, // on a store of one server it moves nothing: TestHomeMove
	}
	for _, pair := range destroying() {
		line, look := pair[0], pair[1]
		if !strings.Contains(look, " --jq ") { // sessions change meanwhile
			look += " --jq [.[]|[.id,.path,.key,.name,.state,.status,.trigger_count]]"
		}
		asks[sample{line: line}.command()] = true
		before := d.must(look)
		if r := d.run(line+" --dry-run", false); r.code != 0 || r.talk == "" || d.must(look) != before {
			t.Errorf("perdure %s: exit code %d, %q; %s, was %s", r.line, r.code, r.talk, d.must(look), before)
		}
		if r := d.runWith(cli.Terminal{}, line); r.code != 9 || !strings.Contains(r.talk, "confirm with") || d.must(look) != before {
			t.Errorf("perdure %s, without a terminal: exit code %d, want 9: %s; %s, was %s", r.line, r.code, r.talk, d.must(look), before)
		}
		for _, at := range []cli.Terminal{{Stdin: true, Stderr: true}, {}} {
			if r := d.runAt(at, line, false); r.code != 9 || !strings.Contains(r.talk, "confirm with --yes") || d.must(look) != before {
				t.Errorf("perdure --no-input %s, stdin a terminal: %t: exit code %d, want 9: %s; %s, was %s", r.line, at.Stdin, r.code, r.talk, d.must(look), before)
			}
		}
		if r := d.run(line+" --yes", false); r.code != 0 || r.talk == "" || d.must(look) == before {
			t.Errorf("perdure %s: exit code %d, %q; still %s", r.line, r.code, r.talk, before)
		}
	}
	for _, command := range d.commandsOf() {
		if strings.Contains(d.must("help "+command), "--yes") != asks[command] {
			t.Errorf("%s has --yes, or has none: it is asked here: %t", command, asks[command])
		}
	}
}
