package scripted_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// moment is what came, and when.
type moment struct {
	At   time.Duration
	What string
}

// TestTiming: what a reply sends, piece by piece, and how long each takes.
func TestTiming(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	cases := []struct {
		name, reply string
		want        []moment
	}{
		{"all at once", "{text: hello, calls: [{name: a}]}", []moment{{0, "open"}, {0, "hello"}, {0, "a({})"}, {0, "tool_calls"}}},
		{"delay", "{delay: 5ms, text: a}", []moment{{5 * ms, "open"}, {5 * ms, "a"}, {5 * ms, "stop"}}},
		{"stall", "{delay: 5ms, stall: 7ms, text: a}", []moment{{5 * ms, "open"}, {12 * ms, "a"}, {12 * ms, "stop"}}},
		{"chunk and pace", "{text: abcde, chunk: 2, pace: 10ms, calls: [{name: a}]}",
			[]moment{{0, "open"}, {0, "ab"}, {10 * ms, "cd"}, {20 * ms, "e"}, {30 * ms, "a({})"}, {30 * ms, "tool_calls"}}},
		{"chunks end on the borders of runes", "{text: aé🙂b, chunk: 3}", []moment{{0, "open"}, {0, "aé"}, {0, "🙂"}, {0, "b"}, {0, "stop"}}},
		{"thinking comes first", "{text: a, thinking: hmm, signature: s, chunk: 2}",
			[]moment{{0, "open"}, {0, "(hm)"}, {0, "(m)"}, {0, "signed s"}, {0, "a"}, {0, "stop"}}},
		{"nothing but a stall", "{stall: 9ms}", []moment{{0, "open"}, {9 * ms, "stop"}}},
		{"an error", "{delay: 5ms, error: {code: request_too_large}}", []moment{{5 * ms, "request_too_large"}}},
		{"an error in the middle", "{text: abcdef, chunk: 2, pace: 1ms, error: {code: provider_unavailable, after_bytes: 3}}",
			[]moment{{0, "open"}, {0, "ab"}, {ms, "c"}, {ms, "provider_unavailable"}}},
		{"cut at once", "{text: abc, cut_after_bytes: 0}", []moment{{0, "open"}, {0, "cut"}}},
		{"cut in a character", "{text: aé, cut_after_bytes: 2}", []moment{{0, "open"}, {0, "a"}, {0, "cut"}}},
		{"cut after the text", "{text: abc, calls: [{name: a}], cut_after_bytes: 3}", []moment{{0, "open"}, {0, "abc"}, {0, "cut"}}},
		{"cut in a call", "{text: abc, calls: [{name: a}, {name: b}], cut_after_bytes: 6}",
			[]moment{{0, "open"}, {0, "abc"}, {0, "a({})"}, {0, "broken"}, {0, "cut"}}},
		{"cut after everything", "{text: abc, calls: [{name: a}], cut_after_bytes: 99}", []moment{{0, "open"}, {0, "abc"}, {0, "a({})"}, {0, "cut"}}},
		{"malformed arguments", "{calls: [{name: a, raw_args: '{\"a\":'}, {name: b, id: x}]}", []moment{{0, "open"}, {0, `a({"a":)`}, {0, "b({}) x"}, {0, "tool_calls"}}},
		{"arguments as they stand", `{calls: [{name: a, raw_args: '{"a" : 1, "a" : 2}'}, {name: b, args: '[1 ]'}]}`,
			[]moment{{0, "open"}, {0, `a({"a" : 1, "a" : 2})`}, {0, "b([1 ])"}, {0, "tool_calls"}}},
		{"a refusal", "{text: no, refusal: true}", []moment{{0, "open"}, {0, "no"}, {0, "refusal"}}},
		{"another finish", "{text: so mu, finish: length}", []moment{{0, "open"}, {0, "so mu"}, {0, "length"}}},
		{"nothing", "{}", []moment{{0, "open"}, {0, "stop"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := moments(t, parse(t, "steps: ["+c.reply+"]"))

				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("moments (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func moments(t *testing.T, m model.Model) []moment {
	t.Helper()
	var all []moment
	begun := time.Now()
	add := func(what string) { all = append(all, moment{time.Since(begun), what}) }
	for d, err := range m.Stream(t.Context(), model.Request{}) {
		var failure *model.Error
		switch {
		case errors.As(err, &failure):
			add(string(failure.Code))
			return all
		case d.Model != "":
			add("open")
		case d.Thinking != "":
			add("(" + d.Thinking + ")")
		case d.Signature != "":
			add("signed " + d.Signature)
		case d.Call != nil:
			add(strings.TrimSpace(d.Call.Name + "(" + string(d.Call.Arguments) + ") " + string(d.Call.ID)))
		case d.DiscardedCalls == 1:
			add("broken")
		case d.Finish != "":
			add(string(d.Finish))
			return all
		default:
			add(d.Text)
		}
	}
	add("cut")
	return all
}

// talk is a transcript in which two tools were called, one of them twice.
func talk() []perdure.Message {
	return []perdure.Message{
		perdure.Text(" first \n"), note("old"), note("task_1 has ended"),
		agent("", called("c1", "bash"), called("c2", "read")),
		result("c1", `{"stdout":"old"}`), result("c2", `"plain <text>"`),
		agent("again", called("c3", "bash")),
		perdure.Text("second"),
		result("c3", `{"stdout":"a\nb\n","exit":0,"big":12345678901234567,"half":0.5,"list":["x",null],"html":"<&>"}`),
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, text, want string }{
		{"plain text stays", `a } b {c} %d`, `a } b {c} %d`},
		{"last", `{{len last}}`, "94"},
		{"user", `<{{user}}>`, "<second>"},
		{"note", `{{note}}`, "task_1 has ended"},
		{"result is the latest of its tool", `{{(result "bash").stdout | trim}}`, "a\nb"},
		{"result of a text", `{{result "read"}}`, "plain <text>"},
		{"numbers compare", `{{with result "bash"}}{{eq .exit 0}} {{.big}} {{.half}} {{index .list 0}}{{end}}`, "true 12345678901234567 0.5 x"},
		{"a missing result is empty", `{{with (result "write").path}}{{.}}{{else}}none{{end}} {{json (result "write")}}`, "none {}"},
		{"json", `{{json (result "bash").html}} {{json user}}`, `"<&>" "second"`},
		{"lines", `{{range $i, $l := lines (result "bash").stdout}}{{$i}}={{$l}};{{end}}{{len (lines "")}}`, "0=a;1=b;0"},
		{"trim", `{{trim "  a "}}`, "a"},
		{"braces", `{{"{{"}}x}}`, "{{x}}"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := parse(t, "steps:\n- repeat: true\n  text: |-\n    "+c.text+"\n")

			got := say(t, m, talk()...)

			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTemplatesFail(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{(result "read").path}}`:         "can't evaluate field path in type string",
		`{{range 2000000}}x{{end}}`:        "the template produces more than 1048576 bytes",
		`{{(result "bash").stdout.first}}`: "can't evaluate field first",
		`{{template "other"}}`:             `template "other" not defined`,
		`{{result 1}}`:                     "expected string; found 1",
	} {
		m := parse(t, "steps:\n- repeat: true\n  text: |-\n    "+text+"\n")

		got := say(t, m, talk()...)

		if !strings.HasPrefix(got, `processing_error: script "demo", steps[0].text: `) || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, args, want string }{
		{"a value", `{b: 1, a: [true, null, x], d: 2001-02-03, n: 1.50, o: 0o17, u: 1_000, big: 12345678901234567890123, f: .5}`,
			`{"a":[true,null,"x"],"b":1,"big":12345678901234567890123,"d":"2001-02-03","f":0.5,"n":1.50,"o":15,"u":1000}`},
		{"templates in it", `{a: ['{{user}} "x" <y>'], b: {c: '{{note}}'}}`, `{"a":["second \"x\" <y>"],"b":{"c":"task_1 has ended"}}`},
		{"JSON text", `'{"b": 1, "a": 2}'`, `{"b": 1, "a": 2}`},
		{"JSON text with a template", `'{"a": {{json user}}, "n": {{(result "bash").exit}}}'`, `{"a": "second", "n": 0}`},
		{"no object", `[1, 2]`, `[1,2]`},
		{"nothing", `null`, `{}`},
		{"a template that writes no JSON", `'{"a": {{user}}}'`, `processing_error: script "demo", steps[0].calls[0].args: the template in args did not produce JSON: pass texts through json, as in {{json last}}`},
		{"a template that fails", `{a: '{{index (result "bash").list 7}}'}`, "index out of range: 7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := parse(t, "steps:\n- repeat: true\n  calls:\n  - name: a\n    args: "+c.args+"\n")

			a, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: talk()}), nil)

			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = string(a.Message.Calls()[0].Arguments)
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}
