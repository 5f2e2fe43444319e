package app

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/pgtest"
)

// places are two servers with data: one on SQLite in the directory a, one on the database x with
// the directory b. No process holds the directory c, and the database y has no server.
type places struct {
	t    *testing.T
	root string
	word map[string]string // replaces placeholders that only the run knows
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	p := &places{t: t, root: shortDir(t), word: map[string]string{}}
	x, y := pgtest.Database(t, nil), pgtest.Database(t, nil)
	for name, database := range map[string]string{"X": x, "Y": y} {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		p.word[name] = strings.Replace(database, "postgres@", "postgres:correct-horse@", 1)
		p.word[name+"2"] = "application_name=other dbname=" + strings.Trim(u.Path, "/") + " user=postgres password=correct-horse sslmode=disable host=" + u.Query().Get("host")
	}
	p.word["GONE"] = "postgres://postgres:correct-horse@127.0.0.1:1/none"
	for _, dir := range []string{"A", "B", "C"} {
		p.word[dir] = filepath.Join(p.root, strings.ToLower(dir))
		p.word["SOCKET"+dir] = "unix://" + filepath.Join(p.word[dir], socketFile)
	}
	p.write("agent.yaml", "steps: [{text: hello, repeat: true}]")
	p.word["URLA"] = p.serve("--data", p.word["A"])
	p.serve("--data", p.word["B"], "--database", x)
	token, err := os.ReadFile(filepath.Join(p.word["A"], tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	p.word["TOKENA"] = strings.TrimSpace(string(token))
	return p
}

func (p *places) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// serve starts a server that ends with the test, and returns its URL.
func (p *places) serve(args ...string) string {
	p.t.Helper()
	serve := exec.Command("perdure", append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	serve.Env = append(os.Environ(), "HOME="+p.root)
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt) // it may have ended
		_ = serve.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// words splits a row and replaces its placeholders.
func (p *places) words(text string) []string {
	fields := strings.Fields(text)
	for i, field := range fields {
		for name, value := range p.word {
			if before, after, ok := strings.Cut(field, "$"+name); ok && (after == "" || strings.ContainsAny(after[:1], "'/")) {
				fields[i] = before + value + after
			}
		}
	}
	return fields
}

// run runs the program with the variables and the configuration of a row.
func (p *places) run(c placeCase, args ...string) (code int, out string) {
	p.t.Helper()
	home := strings.ReplaceAll(strings.ReplaceAll(c.name, " ", "-"), "/", "-")
	config := strings.Join(p.words(c.config), " ")
	p.write(home+"/perdure/config.yaml", config)
	cmd := exec.Command("perdure", args...)
	cmd.Env = append([]string{"HOME=" + p.root, "XDG_CONFIG_HOME=" + filepath.Join(p.root, home), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, p.env(c)...)
	cmd.Dir = p.root
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// env returns the variables of a row. One may contain spaces.
func (p *places) env(c placeCase) (all []string) {
	for _, variable := range strings.Fields(c.env) {
		name, value, _ := strings.Cut(variable, "=")
		all = append(all, name+"="+strings.Join(p.words(value), " "))
	}
	return all
}

// placeCase is one way to name a store.
type placeCase struct {
	name, args, env, config string
	code                    int    // 0, 2, 5 or 6
	store                   string // store that has the session afterwards: a, x or y; empty: none
}

func placeCases() []placeCase {
	return []placeCase{
		{"data alone", "--data $A", "", "", 0, "a"},
		{"data of a server with a database", "--data $B", "", "", 0, "x"},
		{"nobody holds the directory", "--data $C --database $Y", "", "", 0, "y"},

		{"database beside a holder without one", "--data $A --database $X", "", "", 5, ""},
		{"database of the environment", "--data $A", "PERDURE_DATABASE=$X", "", 5, ""},
		{"all of the environment", "", "PERDURE_DATABASE=$X PERDURE_DATA=$A", "", 5, ""},
		{"database of a file", "--data $A", "", "{database: '$X' }", 5, ""},
		{"database of a profile", "--profile p --data $A", "", "{profiles: {p: {database: '$X' }}}", 5, ""},
		{"profile of the environment", "--data $A", "PERDURE_PROFILE=p", "{profiles: {p: {database: '$X' }}}", 5, ""},
		{"the holder's own database in other words", "--data $B --database $X2", "", "", 0, "x"},
		{"the holder's own database", "--data $B", "PERDURE_DATABASE=$X", "", 0, "x"},
		{"another database of the same server", "--data $B --database $Y", "", "", 5, ""},
		{"a database that cannot be reached", "--data $B --database $GONE", "", "", 6, ""},

		{"server and its database", "--server $SOCKETB --database $X2", "", "", 0, "x"},
		{"server and another database", "--server $SOCKETB --database $Y", "", "", 5, ""},
		{"server without a database", "--server $SOCKETA --database $X", "", "", 5, ""},
		{"server over TCP", "--server $URLA --database $X", "PERDURE_TOKEN=$TOKENA", "", 5, ""},
		{"server over TCP with its directory", "--server $URLA --data $A", "PERDURE_TOKEN=$TOKENA", "", 0, "a"},
		{"server before a variable's database", "--server $SOCKETA", "PERDURE_DATABASE=$X", "", 5, ""},
		{"server before a file's database", "--server $SOCKETA", "", "{database: '$X' }", 0, "a"},
		{"variables of both", "", "PERDURE_SERVER=$SOCKETA PERDURE_DATABASE=$X", "", 5, ""},

		{"server and its directory", "--server $SOCKETA --data $A", "", "", 0, "a"},
		{"server and another directory", "--server $SOCKETA --data $B", "", "", 5, ""},
		{"server and a directory that is not there", "--server $SOCKETA --data $A/none", "", "", 5, ""},
		{"server before a variable's directory", "--server $SOCKETA", "PERDURE_DATA=$B", "", 0, "a"},
		{"directory before a variable's server", "--data $B", "PERDURE_SERVER=$SOCKETA", "", 5, ""},
		{"variables of server and directory", "", "PERDURE_SERVER=$SOCKETA PERDURE_DATA=$B", "", 5, ""},
		{"directory before a file's server", "--data $B", "", "{server: '$SOCKETA' }", 5, ""},
		{"a file of both", "", "", "{server: '$SOCKETA' , data: '$B' }", 5, ""},
		{"a profile's server and a directory", "--profile p --data $B", "", "{profiles: {p: {server: '$SOCKETA' }}}", 5, ""},
		{"a profile's server before a variable's directory", "--profile p", "PERDURE_DATA=$B", "{profiles: {p: {server: '$SOCKETA' }}}", 0, "a"},

		{"a profile's directory and another", "--profile p --data $B", "", "{profiles: {p: {data: '$A' }}}", 5, ""},
		{"a profile's directory and the same", "--profile p --data $A", "", "{profiles: {p: {data: '$A' }}}", 0, "a"},
		{"a profile's database and a variable's", "--profile p --data $C", "PERDURE_DATABASE=$Y", "{profiles: {p: {database: '$X' }}}", 5, ""},
		{"a profile's database in other words", "--profile p --data $B --database $X2", "", "{profiles: {p: {database: '$X' }}}", 0, "x"},
		{"a profile's server and a variable's", "--profile p", "PERDURE_SERVER=$SOCKETB", "{profiles: {p: {server: '$SOCKETA' }}}", 5, ""},
		{"the usual profile and a directory", "--data $B", "", "{profile: p, profiles: {p: {data: '$A' }}}", 0, "x"},
	}
}

// TestNamedStore runs a writing command with every way to name a store, by flags, variables and
// files: it uses the named store, or refuses before it does anything. No password is ever printed.
func TestNamedStore(t *testing.T) {
	t.Parallel()
	p := newPlaces(t)
	want := map[string][]string{}
	for _, c := range placeCases() {
		code, out := p.run(c, append(p.words(c.args), "session", "new", "--model", "scripted:"+filepath.Join(p.root, "agent.yaml"), "--title", c.name)...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.name, code, c.code, out)
		}
		if strings.Contains(out, "correct-horse") {
			t.Errorf("%s: a password is printed: %s", c.name, out)
		}
		if c.code == 5 && (!strings.Contains(out, "nothing was done") || !strings.Contains(out, "remove ")) {
			t.Errorf("%s: it does not say what to do: %s", c.name, out)
		}
		if c.store != "" {
			want[c.store] = append(want[c.store], c.name)
		}
	}
	for store, flags := range map[string]string{"a": "--data $A", "x": "--data $B", "y": "--data $C --database $Y"} {
		_, out := p.run(placeCase{name: "look"}, append(p.words(flags), "session", "list", "--jq", ".[].title")...)
		got := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(got)
		if slices.Sort(want[store]); !slices.Equal(got, want[store]) {
			t.Errorf("%s has %q, want %q", store, got, want[store])
		}
	}
}

// TestNamedStoreElsewhere checks that commands without an engine also use the named store, and that
// reading commands read it.
func TestNamedStoreElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlaces(t)
	for _, c := range []struct {
		args, env string
		code      int
		says      string
	}{
		{"--data $A --database $X api GET /v1/sessions", "", 5, "nothing was done"},
		{"--data $A --database $X mcp serve --tool echo", "", 5, "nothing was done"},
		{"--server $SOCKETA --data $B api GET /v1/sessions", "", 5, "nothing was done"},
		{"--server $SOCKETA serve --addr 127.0.0.1:0", "", 2, "serve works directly on a data directory"},
		{"serve --addr 127.0.0.1:0", "PERDURE_SERVER=$SOCKETA", 2, "serve works directly on a data directory"},
		{"--data $A --database $Y serve --addr 127.0.0.1:0", "", 5, "is held by another process"},
		{"--data $B --database $Y serve --addr 127.0.0.1:0", "", 5, "is held by another process"},
		{"--data $C --database $Y mcp proxy -- cat", "", 2, "mcp proxy works directly on a data directory"},
		{"--data $A --database $Y session list", "", 3, "not found"}, // of y, which is still empty
		{"--data $B --database $X session list", "", 0, ""},
	} {
		code, out := p.run(placeCase{name: "one", env: c.env}, p.words(c.args)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("perdure %s %s: exit code %d, want %d with %q: %s", c.env, c.args, code, c.code, c.says, out)
		}
		if strings.Contains(out, "correct-horse") {
			t.Errorf("perdure %s: a password is printed: %s", c.args, out)
		}
	}
	if code, out := p.run(placeCase{name: "two"}, p.words("--data $A api GET /v1/place")...); code != 0 || !strings.Contains(out, `"store":"sqlite"`) {
		t.Errorf("the socket of a is lost: exit code %d: %s", code, out)
	}
}
