//go:build linux

package app

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

const (
	module   = "../.."
	pageTime = 8 * time.Minute // for a full page, on a busy machine
	pageAddr = "127.0.0.1:7373"
	omitted  = "…" // in shown output: anything within a line; alone on a line: any lines
)

// exact are the pages whose command blocks print exactly the output shown below them, and nothing
// if none is shown. On other pages a block without output may print anything.
const exact = "docs/tutorial.md docs/how-to/schedule-an-agent.md docs/how-to/cap-spending.md docs/how-to/give-access.md"

// measured are the pages whose commands build and measure programs, which takes minutes:
// TestPagesSoak runs them.
const measured = "docs/reference/figures.md docs/how-to/read-the-figures.md docs/reference/simulation.md"

// notRun lists the reasons why command blocks are not run, with the maximum number of each. All
// others are run. The comment <!-- not run (REASON) --> precedes such a block.
var notRun = map[string]int{
	"a program that is neither ours nor brought": 2,
}

// A block of commands of a page. An HTML comment before it, which readers do not see, may say:
//
//	<!-- first           commands that prepare the block; their output is ignored
//	<!-- instead         commands to run in its place: it is slow, or changes the machine
//	<!-- refused -->     a command of it fails, as the page says
//	<!-- not run (…) --> why it cannot be run here
type block struct {
	line                   int
	first, commands, shown string
	instead, refused       bool
	isShown                bool
	why                    string // why it is not run; empty: it is run
}

var pieces = regexp.MustCompile("(?ms)^<!-- (first|instead|refused|not run)(?: \\(([^)\n]*)\\))?[ \n](.*?)-->$|^```(\\w*)\n(.*?)^```$")

// readBlocks finds the blocks of a page: those of sh, each with the block without a language right
// below it.
func readBlocks(page string) (all []block, wrong []string) {
	var next block
	end := 0 // of the last command block
	for _, at := range pieces.FindAllStringSubmatchIndex(page, -1) {
		var group [6]string
		for i := range group {
			if at[2*i] >= 0 {
				group[i] = page[at[2*i]:at[2*i+1]]
			}
		}
		line := 1 + strings.Count(page[:at[0]], "\n")
		switch word, language, text := group[1], group[4], group[5]; {
		case word == "first":
			next.first += group[3]
		case word == "instead":
			next.instead, next.commands = true, strings.TrimSpace(group[3])+"\n"
		case word == "refused":
			next.refused = true
		case word == "not run":
			next.why = group[2]
		case language == "sh":
			if !next.instead {
				next.commands = text
			}
			next.line = line
			all, end, next = append(all, next), at[1], block{}
		case language == "" && end > 0 && strings.TrimSpace(page[end:at[0]]) == "":
			all[len(all)-1].shown, all[len(all)-1].isShown = text, true
		case language == "" && regexp.MustCompile(`(?m)^(\$|perdure|curl|go|docker) `).MatchString(text):
			wrong = append(wrong, fmt.Sprintf("line %d: commands without a language: say sh", line))
		case !slices.Contains([]string{"", "go", "json", "yaml", "nginx"}, language):
			wrong = append(wrong, fmt.Sprintf("line %d: no test knows the language %s", line, language))
		}
	}
	if next != (block{}) {
		wrong = append(wrong, "a comment about commands has no block after it")
	}
	return all, wrong
}

// TestPages runs every page that has commands, except the measured ones, each in its own bash with
// an empty home, from top to bottom, with this program. Every command succeeds, and prints the
// shown output.
func TestPages(t *testing.T) {
	t.Parallel()
	playPages(t, func(name string) bool { return !slices.Contains(strings.Fields(measured), name) })
}

// playPages reads all pages and runs the chosen ones.
func playPages(t *testing.T, chosen func(name string) bool) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the pages need curl: install it, or let make test do it")
	}
	left := map[string]int{}
	for why := range notRun {
		left[why] = 0
	}
	number := 0
	for _, name := range pageNames(t) {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			t.Fatal(err)
		}
		blocks, wrong := readBlocks(string(text))
		for _, w := range wrong {
			t.Errorf("%s: %s", name, w)
		}
		if regexp.MustCompile("(?m)^[ \t>]+```").Match(text) {
			t.Errorf("%s: a block is indented, and no test would see it", name)
		}
		run := slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return b.why != "" })
		for _, b := range blocks {
			if b.why != "" {
				left[b.why]++
			}
		}
		if len(run) == 0 || !chosen(name) {
			continue
		}
		number++
		own := number
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, own, run, slices.Contains(strings.Fields(exact), name))
		})
	}
	if !maps.Equal(left, notRun) {
		t.Errorf("blocks that are not run: %v, and notRun allows %v", left, notRun)
	}
}

func pageNames(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md"}
	err := fs.WalkDir(os.DirFS(module), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// play runs the blocks of a page one after another.
func play(t *testing.T, number int, blocks []block, exactly bool) {
	t.Helper()
	printed, failed, talk := takeBlocks(t, number, blocks)
	defer func() {
		if t.Failed() {
			t.Logf("stderr:\n%s", talk)
		}
	}()
	for i, b := range blocks {
		if i >= len(printed) {
			t.Fatalf("it ended before line %d:\n%s", b.line, b.commands)
		}
		if (b.isShown || exactly) && !b.instead && !shows(b.shown, printed[i]) {
			t.Errorf("line %d:\n%s\nshown:\n%s\nprinted:\n%s", b.line, b.commands, b.shown, printed[i])
		}
		switch found := failed[b.line]; {
		case b.refused && len(found) == 0:
			t.Errorf("line %d: no command is refused:\n%s", b.line, b.commands)
		case !b.refused && len(found) > 0:
			t.Errorf("line %d: %s\n%s\nprinted:\n%s", b.line, strings.Join(found, "; "), b.commands, printed[i])
		}
	}
}

// takeBlocks runs blocks in one bash and returns what each printed on stdout, the failed commands
// of each line, and the full stderr.
func takeBlocks(t *testing.T, number int, blocks []block) (printed []string, failed map[int][]string, talk string) {
	t.Helper()
	const mark = "\x1e" // record separator
	home, work := t.TempDir(), t.TempDir()
	root, err := filepath.Abs(module)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(work, "examples")); err != nil {
		t.Fatal(err)
	}
	n := os.Getpid()<<6 + number
	addr := fmt.Sprintf("127.%d.%d.%d:7373", 1+n>>16%120, n>>8&0xff, n&0xff)
	var script strings.Builder
	fmt.Fprintf(&script, ". %s/internal/app/testdata/pages.bash\n", root)
	for _, b := range blocks {
		fmt.Fprintf(&script, "BLOCK=%d\n", b.line)
		if b.first != "" {
			fmt.Fprintf(&script, "{\n%s} > \"$HOME/first.log\"\n", b.first)
		}
		script.WriteString(b.commands + "printf '\\x1e'\n")
	}
	text := inTest(t, script.String(), addr)

	ctx, cancel := context.WithTimeout(t.Context(), pageTime)
	defer cancel()
	t.Cleanup(func() {
		for _, data := range leftIn(home) {
			killCommands(data)
		}
	})
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = work
	cmd.Env = append(plainEnv(), goCaches(t)...)
	cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+home, "MODULE="+root, "FAILED="+filepath.Join(home, "failed.tsv"),
		"PERDURE_ADDR="+addr, "GORACE=atexit_sleep_ms=0")
	if profile := os.Getenv("PERDURE_SANDBOX"); profile != "" {
		cmd.Env = append(cmd.Env, "PERDURE_SANDBOX="+profile)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that servers end with it, however it ends
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); ctx.Err() != nil {
		t.Errorf("bash: %v", err)
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be no process left
	}
	return strings.Split(strings.TrimSuffix(out.String(), mark), mark), readFailed(t, filepath.Join(home, "failed.tsv")), errs.String()
}

// inTest replaces the names of a page with those of the test: this program, a server and local
// providers, and the invented ids, which are variables. Endless commands are started in the
// background, or followed for a while.
func inTest(t *testing.T, text, addr string) string {
	t.Helper()
	provider, receiver := pageServers(t)
	const database = "postgres://perdure@db.internal/perdure"
	if strings.Contains(text, database) {
		text = strings.ReplaceAll(text, database, "'"+pgtest.Database(t, nil)+"'")
	}
	for _, change := range []struct{ from, to string }{
		{`go run \./cmd/perdure`, "perdure"},
		{regexp.QuoteMeta(pageAddr), addr},
		{`(?m)^((?:perdure|\./my-server) serve(?: [^&>\n]*?)?)( +#.*)?$`, "served $1"},
		{`(?m)^(perdure (?:event tail|task watch|session tail|attach|log -f|task log -f|task attach|mcp serve) ?.*|perdure api GET .*event-stream.*|curl -N .*)$`, "followed $1"},
		{`(^|[ =])(/backups/|/srv/perdure)`, "$1~$2"},
		{`(?m)^(perdure (?:approve|cancel|(?:approval approve|task cancel|schedule backfill|budget remove|token revoke|resource release|(?:session|schedule|webhook|value|secret|agent|harness|provider|connection) delete|(?:file|image) rm)) [^|\n]*?)( +#.*)?$`, "$1 --yes"}, // as confirmed on a terminal
		{`(_API_KEY=)…`, "${1}k"},
		{`--base-url http://\S+`, ""},
		{`http://localhost:11434/v1`, provider + "/v1"}, // of a stored provider
		{`(--model (?:openai):\S+)`, "$1 --base-url " + provider + "/v1"},
		{`(--model anthropic:\S+)`, "$1 --base-url " + provider},
		{`https://example\.com/perdure`, receiver + "/perdure"},
		{`([ /"=])((?:task|session|appr|call|whd)_01a\w*)`, "$1$$$2"},
	} {
		text = regexp.MustCompile(change.from).ReplaceAllString(text, change.to)
	}
	return text
}

// pageServers starts a provider that speaks both protocols and answers "Done.", and a receiver of
// webhooks that accepts everything.
func pageServers(t *testing.T) (provider, receiver string) {
	t.Helper()
	say, err := scripted.Parse("page", []byte("steps: [{text: Done., repeat: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	both := http.NewServeMux()
	both.Handle("/v1/chat/completions", openaitest.New(say, openaitest.Config{}))
	both.Handle("/", anthropictest.New(say, anthropictest.Config{}))
	p := httptest.NewServer(both)
	t.Cleanup(p.Close)
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(r.Close)
	return p.URL, r.URL
}

// goCaches are the caches of go, which would otherwise be below the home.
func goCaches(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		text, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name+"="+strings.TrimSpace(string(text)))
	}
	return all
}

// readFailed reads the output of the trap in pages.bash: the line of a block, an exit code, and a
// command.
func readFailed(t *testing.T, file string) map[int][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all := map[int][]string{}
	for line := range strings.Lines(string(text)) {
		number, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue // another line of the same command
		}
		all[n] = append(all[n], "exit code "+strings.Replace(what, "\t", ": ", 1))
	}
	return all
}

// plainEnv is the environment without variables for Perdure or curl.
func plainEnv() []string {
	var kept []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		if !strings.HasPrefix(name, "PERDURE_") && !strings.HasSuffix(name, "_PROXY") {
			kept = append(kept, v)
		}
	}
	return kept
}

// leftIn returns the data directories that a page left in its home.
func leftIn(home string) []string {
	found, err := filepath.Glob(filepath.Join(home, "*", "data"))
	if err != nil {
		panic(err) // the pattern is a constant except for the folder
	}
	return append(found, filepath.Join(home, ".local/share/perdure"))
}

// shows reports whether a text matches the output shown on a page, which may leave something out.
func shows(shown, text string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimRight(shown, "\n") + "\n") {
		if line == omitted+"\n" {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), omitted, `[^\n]*?`))
	}
	text = strings.TrimRight(strings.ReplaceAll(text, "\r", ""), "\n") + "\n"
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(text)
}

// TestPagesAreCompared: differences from the shown output are detected, and omitted parts match
// anything.
func TestPagesAreCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown, text string
		want        bool
	}{
		{"a\n", "a\n", true},
		{"", "", true},
		{"", "a\n", false},
		{"a\n", "", false},
		{"a\n", "a\nb\n", false},
		{"id_…!\n", "id_7!\n", true},
		{"id_…!\n", "id_7\n!\n", false},
		{"a\n…\nb\n", "a\nx\r\ny\r\nb\n", true},
		{"a\n…\nb\n", "a\nx\n", false},
		{"a.c\n", "abc\n", false},
	} {
		if got := shows(c.shown, c.text); got != c.want {
			t.Errorf("%q shows %q: %t, want %t", c.shown, c.text, got, c.want)
		}
	}
}
