package scripted_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
)

// wrongScript is a script that is refused, and what a person reads of it.
type wrongScript struct{ name, script, want string }

// TestParseShape holds scripts whose form is wrong.
func TestParseShape(t *testing.T) {
	t.Parallel()
	refuses(t, []wrongScript{
		{"empty", "", ": the script is empty: add steps, rules or both"},
		{"a comment only", "# nothing\n", ": the script is empty"},
		{"nothing", "---\n", ": the script is empty"},
		{"no list in it", "steps: []\n", ": the script is empty"},
		{"empty JSON", "null", ": the script is empty"},
		{"a list", "- text: hi\n", ":1: want a mapping with the keys steps and rules, got a list"},
		{"two documents", "steps: [{text: a}]\n---\nsteps: [{text: b}]\n", ":2: a second document starts here"},
		{"broken YAML", "steps:\n  - text: [\n", ": neither YAML nor JSON: "},
		{"broken JSON", "{\n\"steps\": [\n", ":2: neither YAML nor JSON: "},
		{"no UTF-8", "steps:\n  - text: \xff\n", ": neither YAML nor JSON: "},
		{"unknown key", "step: []\n", `:1: unknown key "step"; allowed: rules, steps`},
		{"unknown key of a reply", "steps:\n  - txt: a\n", `:2: steps[0]: unknown key "txt"; allowed: text, thinking, signature, calls,`},
		{"unknown key in JSON", "{\"steps\": [\n {\"text\": \"a\",\n  \"txt\": 1}]}", `:3: steps[0]: unknown key "txt"`},
		{"unknown key of a call", "steps:\n- calls:\n  - {nam: a}\n", `:3: steps[0].calls[0]: unknown key "nam"; allowed: id, name, args, raw_args`},
		{"unknown key of an error", "steps: [{error: {kind: a}}]", `:1: steps[0].error: unknown key "kind"; allowed: code, text, retry_after, after_bytes`},
		{"unknown key of usage", "steps: [{usage: {input: 1}}]", `:1: steps[0].usage: unknown key "input"; allowed: input_tokens, output_tokens, cached_tokens`},
		{"unknown condition", "rules: [{when: {role: user}, text: a}]", `:1: rules[0].when: unknown key "role"; allowed: last_role,`},
		{"a key twice", "steps:\n- text: a\n  text: b\n", `:3: steps[0]: the key "text" occurs twice`},
		{"a key twice in JSON", `{"steps":[{"text":"a","text":"b"}]}`, `:1: steps[0]: the key "text" occurs twice`},
		{"a key twice in args", "steps: [{calls: [{name: a, args: {b: 1, b: 2}}]}]", `: steps[0].calls[0].args: the key "b" occurs twice`},
		{"an alias", "steps:\n- text: &x a\n- text: *x\n", `:3: steps[1].text: want a text, in quotes if it could be read as something else, got an alias ("x")`},
		{"an alias of itself", "steps: [{calls: [{name: a, args: &x [*x]}]}]", `:1: steps[0].calls[0].args[0]: want a value that JSON can hold, got an alias`},
		{"a merge", "steps:\n- &x {text: a}\n- <<: *x\n", ":3: steps[1]: a key must be a plain word here"},
		{"a list as a key", "steps:\n- ? [a]\n  : b\n", ":2: steps[0]: a key must be a plain word here, not a list"},
		{"a step that is a text", "steps: [hi]", `:1: steps[0]: want a step: a mapping with a reply, got the text "hi"`},
		{"a number as text", "steps: [{text: 42}]", `:1: steps[0].text: want a text, in quotes if it could be read as something else, got the number "42"`},
		{"nothing as text", "steps:\n- text:\n", ":2: steps[0].text: want a text, in quotes if it could be read as something else, got nothing"},
		{"a tag", "steps: [{text: !!binary aGk=}]", `:1: steps[0].text: want a text, in quotes if it could be read as something else, got "aGk="`},
		{"a text as a number", "steps: [{text: a, chunk: b}]", `:1: steps[0].chunk: want a whole number, got the text "b"`},
		{"a fraction", "steps: [{text: a, chunk: 1.5}]", `:1: steps[0].chunk: want a whole number, got the number "1.5"`},
		{"no flag", "steps: [{text: a, repeat: yes}]", `:1: steps[0].repeat: want true or false, got the text "yes"`},
		{"no unit", "steps: [{text: a, delay: 5}]", `:1: steps[0].delay: want a duration like 250ms, 2s or 10m, got the number "5"`},
		{"a negative duration", "steps: [{text: a, pace: -5s}]", ":1: steps[0].pace: -5s is negative"},
		{"a negative count", "steps: [{text: a, cut_after_bytes: -1}]", ":1: steps[0].cut_after_bytes: -1 is too small"},
		{"a negative chunk", "steps: [{text: a, chunk: -1}]", ":1: steps[0].chunk: -1 is too small"},
		{"negative usage", "steps: [{text: a, usage: {output_tokens: -1}}]", ":1: steps[0].usage: a token count must be 0 or more"},
		{"infinity", "steps: [{calls: [{name: a, args: {b: .inf}}]}]", `: steps[0].calls[0].args.b: want a value that JSON can hold, got the number ".inf"`},
		{"deep args", "steps: [{calls: [{name: a, args: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}]}]", "nested deeper than 100"},
		{"deep JSON", `{"steps":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", "nested deeper than 100"},
		{"too long", "steps: [{text: a}]" + strings.Repeat(" ", 1<<20), ": the script is longer than 1048576 bytes"},
	})
}

// laughs would be 10^9 texts if aliases were followed.
const laughs = `a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]
steps: *h
`

// TestS7Scripts holds scripts that are hostile, not wrong by mistake.
func TestS7Scripts(t *testing.T) {
	t.Parallel()
	call := "steps: [{calls: [{name: a, args: "
	refuses(t, []wrongScript{
		{"a billion laughs", laughs, `:1: unknown key "a"; allowed: rules, steps`},
		{"a billion laughs in args", "steps:\n- calls:\n  - name: a\n    args:\n      x: &x [lol]\n      y: [*x, *x]\n", ":6: steps[0].calls[0].args.y[0]: want a value that JSON can hold, got an alias"},
		{"an alias as a key", "steps:\n- &k text: a\n  *k : b\n", ":"},
		{"deep flow", call + strings.Repeat("[", 100_000), ": neither YAML nor JSON: "},
		{"deep maps", call + strings.Repeat("{a: ", 50_000), ": neither YAML nor JSON: "},
		{"deep blocks", "steps:\n" + strings.Repeat("- ", 50_000), ":"},
		{"deep JSON", `{"steps":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}", "nested deeper than 100"},
		{"half a surrogate pair", "{\"steps\":[{\n\"text\":\"\\ud800\"}]}", `invalid JSON at /steps/0/text: \ud800 is half of a surrogate pair`},
		{"half a surrogate pair in YAML", "steps:\n- text: \"\\ud800\"\n", ":2: neither YAML nor JSON: "},
		{"no UTF-8 in JSON", "{\"steps\":[{\"text\":\"\xff\"}]}", "/steps/0/text: the byte 0xff in a string is not UTF-8"},
		{"a variant of a key", "Steps: []\n", `:1: unknown key "Steps"; allowed: rules, steps`},
		{"a variant in JSON", "{\n\"STEPS\": []}", `:2: unknown key "STEPS"`},
		{"the same key, written in two ways", "steps: [{\n text: a,\n \"t\\x65xt\": b}]", `:3: steps[0]: the key "text" occurs twice`},
		{"a custom tag", "steps: !!python/object:os.system [a]\n", ":1: "},
		{"a directive", "%TAG ! tag:evil,2000:\n---\nsteps: !x []\n", ":3: "},
		{"a huge exponent", `{"steps":[{"calls":[{"name":"a","args":{"n":1e9999999}}]}]}`, "number out of range"},
		{"many keys", "{" + strings.Repeat("a: 1, ", 100_000) + "}", ":1: "},
	})
}

// TestParseMeaning holds scripts of good form that cannot be meant.
func TestParseMeaning(t *testing.T) {
	t.Parallel()
	refuses(t, []wrongScript{
		{"a rule without conditions", "rules:\n- text: a\n", ":2: rules[0].when: add at least one condition; for a reply to everything use a step with repeat: true"},
		{"a rule without a reply", "rules:\n- when: {step: 1}\n", ":2: rules[0]: there is no reply"},
		{"an unknown role", "rules:\n- when:\n    last_role: tool\n  text: a\n", `:3: rules[0].when.last_role: "tool" is not a role; allowed: user, agent, tool_result, notification`},
		{"no regular expression", "rules:\n- when: {last_matches: 'a('}\n  text: a\n", ":2: rules[0].when.last_matches: not an RE2 expression: missing closing ): `a(`"},
		{"an empty condition", "rules: [{when: {last_contains: ''}, text: a}]", ":1: rules[0].when.last_contains: want a text that is not empty"},
		{"attempt 0", "rules: [{when: {attempt: 0}, text: a}]", ":1: rules[0].when.attempt: 0 is too small: it counts from 1"},
		{"no notifications", "rules: [{when: {notifications: 0}, text: a}]", ":1: rules[0].when.notifications: 0 is too small: it counts from 1"},
		{"a step before the first", "rules: [{when: {turn_step: -1}, text: a}]", ":1: rules[0].when.turn_step: -1 is too small: it counts from 0"},

		{"a step that repeats too early", "steps:\n- {text: a, repeat: true}\n- text: b\n", ":2: steps[0].repeat: only the last step can repeat"},
		{"a call without a name", "steps: [{calls: [{args: {}}]}]", ":1: steps[0].calls[0]: name is missing"},
		{"args twice", "steps: [{calls: [{name: a, args: {}, raw_args: '{'}]}]", ":1: steps[0].calls[0]: use args or raw_args, not both"},
		{"args that are no JSON", "steps:\n- calls:\n  - name: a\n    args: '{'\n", `:4: steps[0].calls[0].args: a text here must be JSON, and "{" is not`},
		{"an unknown function", "steps:\n- text: '{{first}}'\n", `:2: steps[0].text: template:1: function "first" not defined; allowed: last, user, note, result, json, lines, trim`},
		{"a broken template", "steps: [{thinking: '{{if}}'}]", ":1: steps[0].thinking: template:1: missing value for if"},
		{"a broken template in args", "steps: [{calls: [{name: a, args: {b: ['{{x}}']}}]}]", `:1: steps[0].calls[0].args.b[0]: template:1: function "x" not defined`},
		{"a broken template in args that are text", "steps: [{calls: [{name: a, args: '{{x}}'}]}]", `:1: steps[0].calls[0].args: template:1: function "x" not defined`},
		{"a signature of nothing", "steps: [{text: a, signature: b}]", ":1: steps[0].signature: a signature needs thinking"},
		{"an unknown finish", "steps: [{text: a, finish: done}]", `:1: steps[0].finish: "done" is not a finish; allowed: stop, tool_calls, length, refusal`},
		{"refusal and finish", "steps: [{refusal: true, finish: stop}]", ":1: steps[0]: use refusal or finish, not both"},
		{"refusal and calls", "steps: [{refusal: true, calls: [{name: a}]}]", ":1: steps[0]: a refusal calls no tools"},
		{"cut and finish", "steps: [{text: a, cut_after_bytes: 1, finish: stop}]", ":1: steps[0]: a stream that is cut off has no finish"},

		{"an error without a code", "steps: [{error: {text: a}}]", ":1: steps[0].error: code is missing; allowed: provider_rate_limited,"},
		{"an unknown code", "steps: [{error: {code: e500}}]", `:1: steps[0].error.code: "e500" is not a code; allowed: provider_rate_limited, provider_unavailable,`},
		{"a negative retry", "steps: [{error: {code: processing_error, retry_after: -1s}}]", ":1: steps[0].error.retry_after: -1s is negative"},
		{"text and error", "steps:\n- text: a\n  error: {code: processing_error}\n", ":2: steps[0]: use an error or an answer, not both"},
		{"an error after nothing", "steps: [{error: {code: processing_error, after_bytes: 3}}]", ":1: steps[0].error.after_bytes: there is nothing before the error"},
		{"an error before the start", "steps: [{text: a, error: {code: processing_error, after_bytes: -3}}]", ":1: steps[0].error.after_bytes: -3 is too small"},
		{"error and cut", "steps: [{text: a, cut_after_bytes: 1, error: {code: processing_error, after_bytes: 1}}]", ":1: steps[0]: a stream ends only once"},
	})
}

func refuses(t *testing.T, cases []wrongScript) {
	t.Helper()
	for _, c := range cases {
		t.Run("refuses "+c.name, func(t *testing.T) {
			t.Parallel()

			m, err := scripted.Parse("some/demo.yaml", []byte(c.script))

			if err == nil || m != nil || !errors.Is(err, perdure.Invalid) {
				t.Fatalf("got %v and %v, want Invalid", m, err)
			}
			if got := err.Error(); !strings.HasPrefix(got, "invalid script some/demo.yaml:") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want it to say %q", got, c.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		script scripted.Script
		want   string
	}{
		{"an empty script", scripted.Script{Name: "demo"}, "invalid script demo: the script is empty: add steps, rules or both"},
		{"args that JSON cannot hold", scripted.Script{Steps: []scripted.Step{{Reply: scripted.Reply{Calls: []scripted.Call{{Name: "a", Args: func() {}}}}}}},
			"invalid script script: steps[0].calls[0].args: not JSON: json: unsupported type: func()"},
		{"a rule without conditions", scripted.Script{Rules: []scripted.Rule{{}}}, "invalid script script: rules[0].when: add at least one condition; for a reply to everything use a step with repeat: true"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			_, err := scripted.New(c.script)

			if !errors.Is(err, perdure.Invalid) || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestParseJSON: JSON is read as JSON, whose strings YAML does not all know.
func TestParseJSON(t *testing.T) {
	t.Parallel()

	m := parse(t, "{\n\t\"steps\": [{\"text\": \"\\ud83d\\ude42 a\\/b\", \"calls\": [{\"name\": \"a\", \"args\": {\"n\": 12345678901234567890.10}}], \"delay\": \"0s\"}]\n}")

	a := answer(t, m, model.Request{})
	if got, want := a.Message.Text(), "🙂 a/b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(a.Message.Calls()[0].Arguments), `{"n":12345678901234567890.10}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "greeting.yaml")
	if err := os.WriteFile(path, []byte("steps:\n- text: hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	m, err := scripted.Load(path)

	if err != nil {
		t.Fatal(err)
	}
	if got := answer(t, m, model.Request{}).Model; got != "scripted:greeting" {
		t.Errorf("got model %q, want scripted:greeting", got)
	}
	if _, err := scripted.Load(path + ".gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// FuzzScript: whatever the text, there is a model or an error that fits on one line.
func FuzzScript(f *testing.F) {
	f.Add([]byte("steps: [{text: hello}]"))
	f.Add([]byte(laughs))

	f.Fuzz(func(t *testing.T, text []byte) {
		begun := time.Now()
		m, err := scripted.Parse("fuzz.yaml", text)

		if (m == nil) != (err != nil) {
			t.Fatalf("got %v and %v", m, err)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, perdure.Invalid) || strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 1000 {
			t.Errorf("got %q", err)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
