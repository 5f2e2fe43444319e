package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/webhook"
)

func TestC02Forms(t *testing.T) {
	t.Parallel()
	things := []string{"first\x1b[31m", "世界"}
	words := outputList[string]{
		noun: "words", head: []string{"WORD", "IS"},
		row:  func(s string) []cell { return []cell{{s, bold}, {text: "here"}} },
		name: func(s string) string { return s },
	}
	for form, want := range map[string]string{
		"table": "WORD       IS\nfirst[31m  here\n世界       here\n",
		"json":  "[\n  \"first\\u001b[31m\",\n  \"世界\"\n]\n",
		"jsonl": "\"first\\u001b[31m\"\n\"世界\"\n",
		"name":  "first[31m\n世界\n",
		"yaml":  "- \"first\\e[31m\"\n- 世界\n",
		"none":  "",
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			a := &app{out: &stdoutWriter{w: &out}}
			if err := words.print(t.Context(), a, outputFlags{Output: form}, things); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out.String(), want); diff != "" {
				t.Error(diff)
			}
		})
	}

	t.Run("a terminal gets escapes", func(t *testing.T) {
		t.Parallel()
		for raw, want := range map[bool]string{false: "\"\\u202e\\u009b\"\n", true: "\"\u202e\u009b\"\n"} {
			var out bytes.Buffer
			a := &app{Dependencies: Dependencies{Terminal: Terminal{Stdout: true}}, flags: flags{Raw: raw}, out: &stdoutWriter{w: &out}}
			if err := words.print(t.Context(), a, outputFlags{Output: "jsonl"}, []string{"\u202e\u009b"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out.String(), want); diff != "" {
				t.Errorf("raw %t: %s", raw, diff)
			}
		}
	})
	t.Run("no form drives a terminal (C18)", func(t *testing.T) {
		t.Parallel()
		evil := []string{"a\x1b]0;x\x07\u202e\u009b31m\u2066b"}
		for _, form := range []outputFlags{
			{Output: "table"}, {Output: "name"}, {Output: "json"}, {Output: "jsonl"}, {Output: "yaml"}, {Output: "table", JQ: ".[]"},
			{Output: "json", JQ: "."}, {Output: "yaml", JQ: "."}, {Output: "table", Template: "{{.}}"},
		} {
			var out bytes.Buffer
			a := &app{Dependencies: Dependencies{Terminal: Terminal{Stdout: true}}, out: &stdoutWriter{w: &out}}
			if err := words.print(t.Context(), a, form, evil); err != nil {
				t.Fatal(err)
			}
			if text := out.String(); !strings.Contains(text, "b") || strings.ContainsAny(text, "\x1b\x07\u202e\u009b\u2066") {
				t.Errorf("%+v: %q", form, text)
			}
		}
	})
	t.Run("nothing is an empty list", func(t *testing.T) {
		t.Parallel()
		var out, talk bytes.Buffer
		a := &app{Dependencies: Dependencies{Stderr: &talk}, out: &stdoutWriter{w: &out}}
		for _, form := range []string{"table", "json", "jsonl", "name", "none"} {
			if err := words.print(t.Context(), a, outputFlags{Output: form}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != "[]\n" || talk.String() != "no words\n" {
			t.Errorf("got %q and %q", out.String(), talk.String())
		}
	})
}

// full is a stdout on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestC01LostOutput(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	code := Main(t.Context(), Dependencies{Args: []string{"help", "exit-codes"}, Stdout: full{}, Stderr: &talk, Log: quietLog})

	if code != exitError || !strings.HasPrefix(talk.String(), "perdure: write to stdout: no space\n  ") {
		t.Errorf("exit code %d, %q", code, talk.String())
	}
}

func TestC14NoStack(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	// Open is nil, which causes a panic
	code := Main(t.Context(), Dependencies{Args: []string{"session", "list"}, Stdout: &bytes.Buffer{}, Stderr: &talk, DataDir: "/d", Log: quietLog})

	if code != exitError || !bytes.HasPrefix(talk.Bytes(), []byte("perdure: internal error: ")) || bytes.Contains(talk.Bytes(), []byte("goroutine")) {
		t.Errorf("exit code %d, %q", code, talk.String())
	}
}

func quietLog(LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestS17WebhooksAndTokens: no text of webhooks and tokens can control a terminal.
func TestS17WebhooksAndTokens(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b]0;x\x07\u202e\u009b31m\u2066b"
	var out bytes.Buffer
	a := &app{Dependencies: Dependencies{Terminal: Terminal{Stdout: true}}, out: &stdoutWriter{w: &out}}
	hook := webhook.Webhook{URL: evil, Types: []string{evil}, Disabled: evil}
	a.fields(webhookText{a}.webhookFields(hook)...)
	webhookText{a}.printDelivery(webhook.Delivery{Type: evil, AttemptLog: []webhook.Attempt{{Error: evil}, {Status: 500, Answer: evil}}})
	token := engine.Token{Name: evil, Org: evil, User: evil, Scopes: []string{evil}}
	if err := tokens(a.now()).print(t.Context(), a, outputFlags{Output: "table"}, []engine.Token{token}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "b") < 9 || strings.ContainsAny(text, "\x1b\x07\u202e\u009b\u2066") {
		t.Errorf("got %q", text)
	}
}
