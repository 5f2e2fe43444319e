package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/redact"
)

// poison is text that must not reach a terminal: a title, the clipboard, colors by C1, and
// right-to-left text.
const poison = "\x1b]0;title\a\x1b]52;c;eA==\a\u009b31m\u009d0;x\u009c\u202a\u202e\u2066x\u2069\x7f\b"

// wildIn returns the first character of a text that could control a terminal or hide text; empty:
// none.
func wildIn(text string) string {
	for i, r := range text {
		switch {
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"), r == '\n', r == '\t': // the terminal itself adds the \r
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return text[max(0, i-60):min(len(text), i+60)]
		}
	}
	return ""
}

// fixedNames returns the names of response fields with fixed values or a fixed format: they are not
// poisoned, since no client would understand the response.
func fixedNames(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/openapi.json")
	var document any
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The document allows any string here, but these are terms of the journal, which clients do not
	// accept otherwise.
	names := map[string]bool{"class": true, "effect_class": true, "currency": true, "lane": true, "stop_reason": true, "period": true, "cause": true, "encoding": true}
	var walk func(name string, value any)
	walk = func(name string, value any) {
		switch v := value.(type) {
		case []any:
			for _, one := range v {
				walk(name, one)
			}
		case map[string]any:
			for _, mark := range []string{"enum", "format", "const", "pattern"} {
				if v[mark] != nil && v["type"] == "string" {
					names[name] = true
				}
			}
			for key, one := range v {
				if key == "items" || key == "additionalProperties" {
					key = name
				}
				walk(key, one)
			}
		}
	}
	walk("", document.(map[string]any)["components"])
	return names
}

// poisoned adds poison to each text of a response that can be any text.
func poisoned(fixed map[string]bool, name string, value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = poisoned(fixed, name, v[i])
		}
	case map[string]any:
		for key, one := range v {
			v[key] = poisoned(fixed, key, one)
		}
	case string:
		_, err := time.Parse(time.RFC3339, v)
		if !fixed[name] && err != nil && !regexp.MustCompile(`^-?[0-9.]*$`).MatchString(v) {
			return v + poison
		}
	}
	return value
}

// hostile is a desk whose server returns poison in every text, and removes it from requests.
func (d *desk) hostile() (url string) {
	fixed := fixedNames(d.t)
	return rewriter{
		data: d.data,
		ask: func(r *http.Request) {
			r.URL.Path = strings.ReplaceAll(r.URL.Path, poison, "")
			query := r.URL.Query()
			for _, values := range query {
				for i := range values {
					values[i] = strings.ReplaceAll(values[i], poison, "")
				}
			}
			r.URL.RawQuery, r.URL.RawPath = query.Encode(), ""
		},
		answer: func(_ string, value any) any { return poisoned(fixed, "", value) },
		bytes:  func(_ string, body []byte) []byte { return append(body, poison...) },
	}.serve(d.t)
}

// ownWords are the commands that print nothing of a server's data, each with a reason.
func ownWords() map[string]string {
	return map[string]string{
		"config list": "of this machine", "config check": "likewise", "config schema": "of the program", "version": "likewise", "egress list": "refused beside a server",
		"ps --prompt":         "numbers",
		"task show none-such": "what was typed, quoted",
	}
}

// hostileLines are the command lines of the test: all reading commands, commands that print raw
// bytes, refused ones, and completion.
func hostileLines(url string) (lines []string) {
	lines = []string{
		"ps --prompt", "log Build", "attach --read-only Doubt", "task watch Doubt", "file cat {kept} /hello.txt", "session export {kept}", "api GET /v1/sessions -i", "task show none-such",
		"session resume {kept} --dry-run", "task cancel Build --dry-run", "task detach {call} --dry-run", "session delete {kept} --dry-run",
	}
	for _, s := range samples() {
		if s.tells() {
			lines = append(lines, s.line)
		}
	}
	for _, noun := range []string{"session show", "task show", "schedule show", "approval show"} {
		lines = append(lines, "__complete --new -- "+noun+" --server "+url)
	}
	return lines
}

// TestC18Terminal puts poison into every text of a server's responses and runs commands on real
// terminals: the poison reaches the terminal only with --raw.
func TestC18Terminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("secret set {kept} BANK_KEY --file {dir}/key.txt")
	d.must("provider set gate --kind openai --base-url http://127.0.0.1:1/v1 --key-file {dir}/key.txt --default-model small")
	url := d.hostile()
	typed := d.typed()
	env := append(os.Environ(), "HOME="+d.dir, "PERDURE_DATA="+d.data, "TERM=xterm", "GORACE=atexit_sleep_ms=0")
	var group sync.WaitGroup
	queue := make(chan string)
	for range 2 {
		group.Go(func() {
			for line := range queue {
				words := "--server " + url + " --no-input --color never " + typed(line)
				tame := onTerminal(t, env, "perdure", strings.Fields(words)...).wholly()
				if strings.HasPrefix(line, "task watch ") {
					tame = moves.ReplaceAllString(tame, "")
				}
				if found := wildIn(tame); found != "" {
					t.Errorf("perdure %s: the terminal is sent %q", line, found)
				}
				wild := d.shown(cli.Terminal{Stdout: true, Stderr: true}, "--raw "+words)
				if reason := ownWords()[line]; (wildIn(wild) == "") != (reason != "") {
					t.Errorf("perdure --raw %s says %q; it has words of its own: %q", line, wild, reason)
				}
			}
		})
	}
	for _, line := range hostileLines(url) {
		queue <- line
	}
	close(queue)
	group.Wait()
	d.forms(url, typed)
}

// moves matches control sequences that draw over a view.
var moves = regexp.MustCompile(`\x1b\[(\?7[lh]|J|[0-9]A)|\r`)

// typed returns how a sample line is typed if names contain poison.
func (d *desk) typed() func(line string) string {
	pairs := []string{" echo", " echo" + poison, "{hook}", "{hook}" + poison, " none-such", " none-such" + poison}
	for name, list := range map[string]string{"Build": "task", "Doubt": "task", "daily": "schedule", "house": "harness"} {
		pairs = append(pairs, " "+name, " "+d.must(list+` list --jq .[]|select(.title=="`+name+`"or(.display_name=="`+name+`")or(.name=="`+name+`")).id`))
	}
	names := strings.NewReplacer(pairs...)
	return func(line string) string { return d.names.Replace(names.Replace(line)) }
}

// forms prints every list and show in each kind of format on a terminal, in this process, and
// checks that it has no poison; and that a pipe gets the data unchanged.
func (d *desk) forms(url string, typed func(string) string) {
	d.t.Helper()
	whole := 0
	for _, s := range samples() {
		if !s.tells() {
			continue
		}
		for _, form := range []string{"-o json", "-o name", "--template {{.}}"} {
			shown := d.shown(cli.Terminal{Stdout: true, Stderr: true}, "--server "+url+" --color never "+typed(s.line)+" "+form)
			if found := wildIn(shown); found != "" {
				d.t.Errorf("perdure %s %s: the terminal is sent %q", s.line, form, found)
			}
		}
		if piped := d.shown(cli.Terminal{}, "--server "+url+" "+typed(s.line)+" -o json"); strings.Contains(piped, "\u202e") {
			whole++
		}
	}
	if whole < 20 {
		d.t.Errorf("only %d commands pipe the data as it is", whole)
	}
}

// shown is what a command writes to a terminal, or to pipes.
func (d *desk) shown(terminal cli.Terminal, line string) string {
	var all bytes.Buffer
	w := Program{}.dependencies(terminal, redact.NewSet())
	w.Args, w.DataDir = append([]string{"--no-input"}, strings.Fields(line)...), d.data
	w.Stdin, w.Stdout, w.Stderr = untyped{d.t, line}, &all, &all
	w.Env = func(name string) string { return map[string]string{"HOME": d.dir, "XDG_CONFIG_HOME": d.dir}[name] }
	w.Log = func(cli.LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) }
	cli.Main(d.t.Context(), w)
	return all.String()
}

// wholly waits for the end of a command, and returns all its output.
func (x *terminal) wholly() string {
	for piece := range x.pieces {
		x.all.WriteString(piece)
	}
	_ = x.cmd.Wait() // it may fail
	return x.all.String()
}
