package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// advice returns the command lines in the output, as they would be pasted.
func advice(talk string) (lines []string) {
	for line := range strings.Lines(talk) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "perdure ") && !strings.HasPrefix(line, "perdure: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// paste runs command lines in a shell, and returns the stdout of the last one.
func (p place) paste(lines []string) (out string) {
	p.t.Helper()
	for _, line := range lines {
		cmd := p.command()
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", line}
		cmd.Err = nil
		text, err := cmd.CombinedOutput()
		if err != nil {
			p.t.Fatalf("pasted %q: %v\n%s", line, err, text)
		}
		out = string(text)
	}
	return out
}

const helloScript = "steps: [{text: Hello., repeat: true}]\n"

// unanswered is a reason why a prompt has no answer.
type unanswered struct {
	before [][]string // commands to run first; S is the session
	args   []string   // instead of run --session S more
	env    []string
	code   int
	says   []string
	goesOn bool // the suggested commands, pasted, end with the answer
}

// TestPromptHeld runs into each kind of hold: the command names it and the amounts spent, returns
// the code of its kind, and its suggested commands resume the session when pasted.
func TestPromptHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]unanswered{
		"a person paused it": {
			before: [][]string{{"session", "pause", "S", "--why", "let me look"}},
			code:   9, says: []string{"is paused by operator: let me look", "perdure session resume "},
		},
		"a budget of the session": {
			before: [][]string{{"budget", "set", "session", "S", "--limit", "1", "--currency", "model_calls"}, {"run", "--session", "S", "one"}, {"run", "--session", "S", "two"}},
			code:   5, says: []string{"paused by a budget, and its messages wait", "spent 1 of 1 model_calls", " of session session_"}, goesOn: true,
		},
		"a budget of everybody, with a period": {
			before: [][]string{{"budget", "set", "org", "--limit", "1", "--currency", "model_calls", "--period", "every 24h"}, {"run", "--session", "S", "one"}, {"run", "--session", "S", "two"}},
			code:   5, says: []string{"spent 1 of 1 model_calls", "of org default", "--period 'every 24h", "its next period begins"}, goesOn: true,
		},
		"the soft limit of a budget": {
			before: [][]string{{"budget", "set", "session", "S", "--limit", "9", "--soft", "1", "--currency", "model_calls"}, {"run", "--session", "S", "one"}, {"run", "--session", "S", "two"}, {"run", "--session", "S", "three"}},
			code:   9, says: []string{"paused by a budget", "of 9 model_calls, with a soft limit of 1", "perdure budget resume "}, goesOn: true,
		},
		"a budget, and nothing is said": {
			before: [][]string{{"budget", "set", "session", "S", "--limit", "1", "--currency", "model_calls"}, {"run", "--session", "S", "one"}, {"run", "--session", "S", "two"}},
			args:   []string{"run", "--session", "S"},
			code:   5, says: []string{"spent 1 of 1 model_calls"}, goesOn: true,
		},
		"a budget cuts this turn short": {
			before: [][]string{{"budget", "set", "session", "S", "--limit", "1", "--currency", "model_calls"}, {"run", "--session", "S", "one"}},
			code:   8, says: []string{"spent 1 of 1 model_calls"}, goesOn: true,
		},
		"it is only handed over to a session that a budget paused": {
			before: [][]string{{"budget", "set", "session", "S", "--limit", "1", "--currency", "model_calls"}, {"run", "--session", "S", "one"}, {"run", "--session", "S", "two"}},
			args:   []string{"session", "send", "S", "more"},
			code:   0, says: []string{"the message to session_", "spent 1 of 1 model_calls", "perdure budget set "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
}

// TestPromptNotAnswered runs into every other reason why a prompt has no answer.
func TestPromptNotAnswered(t *testing.T) {
	t.Parallel()
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":503,"code":"draining","title":"Draining","detail":"the server comes to its end"}`))
	}))
	t.Cleanup(full.Close)
	for name, c := range map[string]unanswered{
		"a call waits for a yes, and nobody is there": {
			before: [][]string{{"run", "--no-input", "--ask", "echo", "--session", "S", "say it"}},
			args:   []string{"run", "--no-input", "--session", "S", "more"},
			code:   9, says: []string{"echo needs your approval", "perdure approve ", "needs an answer"},
		},
		"a rule denies the call, and the model hears of it": {
			args: []string{"run", "--no-input", "--deny", "echo", "--session", "S", "say it"},
			code: 0, says: []string{"echo error: Permission denied"},
		},
		"there is no key of the model": {
			args: []string{"run", "--session", "S", "--model", "openai:gpt-5", "more"}, env: []string{"OPENAI_API_KEY="},
			code: 4, says: []string{"OPENAI_API_KEY is not set"},
		},
		"the model is none": {
			args: []string{"run", "--session", "S", "--model", "nonsense", "more"},
			code: 2, says: []string{"perdure: "},
		},
		"the session is deleted": {
			before: [][]string{{"session", "delete", "S", "--yes"}},
			code:   3, says: []string{"perdure session list"},
		},
		"the server comes to its end": {
			args: []string{"run", "--server", full.URL, "--session", "session_00000000000000000000000000000001", "more"},
			code: 6, says: []string{"try again"},
		},
		"the model fails": {
			args: []string{"run", "--session", "S", "fail"},
			code: 8, says: []string{"the turn failed: processing_error: no", "details: perdure event list "},
		},
		"the model says nothing": {
			args: []string{"run", "--session", "S", "silence"},
			code: 0, says: []string{"the model ended its turn without an answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
}

// play runs the case.
func (c unanswered) play(t *testing.T) {
	t.Helper()
	p := newPlace(t, map[string]string{"s.yaml": `
rules:
  - when: {user_contains: fail}
    error: {code: processing_error, text: no}
  - when: {user_contains: silence}
    text: ""
  - when: {last_role: user, user_contains: say it}
    calls: [{name: echo, args: {message: one}}]
` + helloScript})
	s := strings.TrimSpace(p.output("session", "new", "--model", "scripted:"+filepath.Join(p.work, "s.yaml"), "-o", "name"))
	named := func(args []string) []string {
		all := []string{}
		for _, arg := range args {
			if arg == "S" {
				arg = s
			}
			all = append(all, arg)
		}
		return all
	}
	for _, args := range c.before {
		p.told(named(args)...)
	}
	if c.args == nil {
		c.args = []string{"run", "--session", "S", "more"}
	}
	p.env = c.env

	code, _, talk := p.told(named(c.args)...)

	if code != c.code {
		t.Errorf("exit code %d, want %d", code, c.code)
	}
	for _, words := range c.says {
		if !strings.Contains(talk, words) {
			t.Errorf("it does not say %q", words)
		}
	}
	if c.goesOn {
		if got := p.paste(advice(talk)); !strings.Contains(got, "Hello.") {
			t.Errorf("what it advises does not let it go on: %q", got)
		}
	}
	if t.Failed() {
		t.Logf("it says:\n%s", talk)
	}
}

// TestHoldOverHTTP: the response to a message says that the message waits, and why; so does the
// session.
func TestHoldOverHTTP(t *testing.T) {
	t.Parallel()
	d := newDoorway(t, nil)
	d.start()
	hold := func(text string) (h struct {
		Code   string
		Detail string
		Budget struct{ Limit, Balance, Currency string }
	}) {
		t.Helper()
		var answer struct{ Hold json.RawMessage }
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if len(answer.Hold) > 0 {
			if err := json.Unmarshal(answer.Hold, &h); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	id := d.begin(d.script(helloScript), "begin")
	put := d.request(post{"/v1/budgets/session/" + string(id), "cap", `{"currency":"model_calls","limit":"1"}`})
	put.Method = http.MethodPut
	if r, err := d.do(put); err != nil || r.status/100 != 2 {
		t.Fatalf("%+v, %v", r, err)
	}

	first, _ := d.insist(say(id, "one", "one"))
	d.rest(id)
	d.insist(say(id, "two", "two"))
	d.rest(id)
	third, _ := d.insist(say(id, "three", "three"))
	session := d.get("/v1/sessions/" + string(id))

	if got := hold(first.body); got.Code != "" {
		t.Errorf("the first message is held: %s", first.body)
	}
	for where, got := range map[string]string{"the message": third.body, "the session": session.body} {
		if h := hold(got); h.Code != "budget_exhausted" || h.Budget.Limit != "1" || h.Budget.Balance != "0" || !strings.Contains(h.Detail, "is used up") {
			t.Errorf("%s does not say why it waits: %s", where, got)
		}
	}
}
