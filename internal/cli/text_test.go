package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

func TestC18PlainText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"leaves text as it is", "Grüße, 世界 🙂\n\ttabbed", "Grüße, 世界 🙂\n\ttabbed"},
		{"takes colors away", "\x1b[31mred\x1b[0m", "[31mred[0m"},
		{"takes a title away", "\x1b]0;owned\x07after", "]0;ownedafter"},
		{"takes C1 away", "a\u009b31mb\u0085c", "a31mbc"},
		{"takes C1 bytes away", "a\x9b31mb", "a\uFFFD31mb"},
		{"takes bidi away", "\u202egpj.exe\u202c \u2066x\u2069 \u200f\u200e\u061c", "gpj.exe x "},
		{"takes backspaces away", "safe\b\b\b\bevil\x7f", "safeevil"},
		{"makes a redrawn line a new one", "10%\r20%\r\nend", "10%\n20%\nend"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(printable(test.in), test.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestC18PlainWriter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]string{"a", "\r", "\n", "\x1b", "é", "世", "🙂", "\x9b", "\xe4", "\u202e"})).Draw(t, "text")
		whole := strings.Join(text, "")
		var got bytes.Buffer
		w := &printableWriter{w: &got}

		for rest := []byte(whole); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}

		// The pieces determine how many bytes of invalid UTF-8 become one U+FFFD; nothing else
		// depends on them.
		squeeze := func(s string) string {
			for strings.Contains(s, "\uFFFD\uFFFD") {
				s = strings.ReplaceAll(s, "\uFFFD\uFFFD", "\uFFFD")
			}
			return s
		}
		if diff := cmp.Diff(squeeze(got.String()), squeeze(printable(whole))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestC18Talk checks that every argument of a message is made printable, whatever its type, except
// colored text.
func TestC18Talk(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b]52;c;x\a\u009b2J\u202eb"
	for _, arg := range []any{hostile, perdure.TaskID(hostile), errors.New(hostile), &net.OpError{Op: hostile, Err: errors.New(hostile)}, &url.URL{Opaque: hostile}} {
		for raw, want := range map[bool]bool{false: false, true: true} {
			var said bytes.Buffer
			a := &app{Dependencies: Dependencies{Stderr: &said}, flags: flags{Raw: raw}}
			a.message("%s %v %d %s", arg, nil, 3, colorizer(true).mark(red, "!"))
			if got := strings.ContainsRune(said.String(), '\u202e'); got != want || !strings.HasSuffix(said.String(), " <nil> 3 \x1b[31m!\x1b[0m\n") {
				t.Errorf("raw %t: %q", raw, said.String())
			}
		}
	}
}

func TestC18PlainJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]string{"text": rapid.String().Draw(t, "text") + "\u202e\u009b\x1b\x7f"}
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}

		safe := printableJSON(text)

		var got map[string]string
		if err := json.Unmarshal(safe, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, value); diff != "" {
			t.Error(diff)
		}
		if printable(string(safe)) != string(safe) {
			t.Errorf("%q could drive a terminal", safe)
		}
	})
}

func TestC17Spans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 ms", 0: "0 ms", 42 * time.Millisecond: "42 ms", 1500 * time.Millisecond: "1.5 s", 90 * time.Second: "90 s",
		5 * time.Minute: "5 min", 3 * time.Hour: "3 h", 72 * time.Hour: "3 days",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "span"))
		if got := span(d); strings.HasPrefix(got, "-") {
			t.Errorf("span(%v) = %q", d, got)
		}
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "now"), 0)
		now := clock{at, rapid.SampledFrom([]string{"", "relative", "rfc3339", "local"}).Draw(t, "form")}
		for _, text := range []string{ago(at.Add(d), now), now.age(at.Add(d)), now.until(at.Add(d)), moment(at.Add(d), now)} {
			if strings.Contains(text, "-") && now.stamp(at) == "" && !strings.Contains(text, "  (") || text == "" && !at.Add(d).IsZero() {
				t.Errorf("%v from %v in %q: %q", d, at, now.form, text)
			}
		}
	})
}

// TestC17TimeFormat checks that tables use the requested time format, and JSON always the same.
func TestC17TimeFormat(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	world := &scene{views: [][]perdure.Task{{{ID: "task_1", State: perdure.TaskRunning, Tool: "bash", CreatedAt: began}}}}
	for form, want := range map[string]string{
		"relative": " days\n", "rfc3339": " 2026-01-02T03:04:05Z\n", "local": " " + began.Local().Format(time.DateTime) + "\n",
	} {
		_, out, talk := command{args: "task list --time-format " + form, scene: world}.run(t.Context())
		if !strings.Contains(out, want) {
			t.Errorf("%s: %q %s", form, out, talk)
		}
		if _, out, _ := (command{args: "task list -o json --time-format " + form, scene: world}).run(t.Context()); !strings.Contains(out, `"created_at": "2026-01-02T03:04:05Z"`) {
			t.Errorf("%s: %s", form, out)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "n")
		got := clip(s, n)
		if utf8.RuneCountInString(got) > n {
			t.Errorf("clip(%q, %d) = %q is longer", s, n, got)
		}
		if utf8.RuneCountInString(s) <= n && got != s {
			t.Errorf("clip(%q, %d) = %q", s, n, got)
		}
	})
}

// TestC03Color is not parallel: it sets the environment.
func TestC03Color(t *testing.T) {
	both, none := Terminal{Stdout: true, Stderr: true}, Terminal{}
	for _, test := range []struct {
		name, when string
		env        map[string]string
		terminal   Terminal
		want       streamColors
	}{
		{"a terminal has colors", "auto", nil, both, streamColors{true, true}},
		{"a pipe has none", "auto", nil, none, streamColors{}},
		{"each stream is asked for itself", "auto", nil, Terminal{Stderr: true}, streamColors{false, true}},
		{"always is always", "always", map[string]string{"NO_COLOR": "1"}, none, streamColors{true, true}},
		{"never is never", "never", map[string]string{"CLICOLOR_FORCE": "1"}, both, streamColors{}},
		{"NO_COLOR turns them off", "auto", map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, both, streamColors{}},
		{"CLICOLOR_FORCE turns them on", "auto", map[string]string{"CLICOLOR_FORCE": "1"}, none, streamColors{true, true}},
		{"CLICOLOR_FORCE=0 does not", "auto", map[string]string{"CLICOLOR_FORCE": "0"}, none, streamColors{}},
		{"a dumb terminal has none", "auto", map[string]string{"TERM": "dumb"}, both, streamColors{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := newStreamColors(test.when, test.terminal, func(name string) string { return test.env[name] }); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestC19Columns cuts text to columns of a terminal, and keeps text that fits.
func TestC19Columns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"abc": 3, "世界": 4, "e\u0301": 1, "한": 2, "ｆ": 2, "🙂": 2, "\u202ea\x1b": 1, "": 0} {
		if got := columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.StringOf(rapid.SampledFrom([]rune("aé世🙂\u0301한"))).Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "n")
		got := truncateColumns(s, n)
		kept := strings.TrimSuffix(got, "…")
		if columns(got) > n || !strings.HasPrefix(s, kept) || columns(s) <= n && got != s || columns(s) > n && columns(got) < n-1 {
			t.Errorf("narrowed(%q, %d) = %q", s, n, got)
		}
	})
}
