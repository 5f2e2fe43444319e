package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
)

func parse(t *testing.T, script string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("demo.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func answer(t *testing.T, m model.Model, req model.Request) model.Answer {
	t.Helper()
	a, err := model.Collect(m.Stream(t.Context(), req), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// say asks a model about a transcript, and returns the text or the text of the error.
func say(t *testing.T, m model.Model, messages ...perdure.Message) string {
	t.Helper()
	a, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: messages}), nil)
	if err != nil {
		return err.Error()
	}
	return a.Message.Text()
}

func agent(text string, calls ...perdure.ToolCall) perdure.Message {
	m := perdure.Text(text)
	m.Role = perdure.RoleAgent
	for _, c := range calls {
		m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &c})
	}
	return m
}

func called(id, tool string) perdure.ToolCall {
	return perdure.ToolCall{ID: perdure.CallID(id), Name: tool, Arguments: json.RawMessage("{}")}
}

func result(id, body string) perdure.Message {
	r := perdure.ToolResult{CallID: perdure.CallID(id), Result: json.RawMessage(body)}
	return perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &r}}}
}

func note(text string) perdure.Message {
	m := perdure.Text(text)
	m.Role = perdure.RoleNotification
	return m
}

func TestSteps(t *testing.T) {
	t.Parallel()
	user := perdure.Text("hi")

	t.Run("are counted by agent messages", func(t *testing.T) {
		t.Parallel()
		m := parse(t, "steps: [{text: one}, {text: two}]")

		got := []string{say(t, m), say(t, m, user), say(t, m, user, agent("one"), user), say(t, m, user, agent("a"), agent("b"))}

		want := []string{"one", "one", "two", `processing_error: script "demo" has no reply for this transcript (step 2, last role agent): add a rule or a step, or repeat the last step`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
	t.Run("the last one repeats", func(t *testing.T) {
		t.Parallel()
		m := parse(t, "steps: [{text: one}, {text: two, repeat: true}]")

		got := []string{say(t, m, user), say(t, m, agent("a")), say(t, m, agent("a"), agent("b"), agent("c"), user)}

		if diff := cmp.Diff([]string{"one", "two", "two"}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
	t.Run("come after the rules", func(t *testing.T) {
		t.Parallel()
		m := parse(t, "steps: [{text: step}]\nrules: [{when: {last_contains: x}, text: first}, {when: {last_contains: xy}, text: second}]")

		got := []string{say(t, m, user), say(t, m, perdure.Text("xy"))}

		if diff := cmp.Diff([]string{"step", "first"}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
	t.Run("nothing is remembered", func(t *testing.T) {
		t.Parallel()
		script := "steps: [{text: one}, {text: 'so {{last}}', calls: [{name: a, args: {z: 1, b: '{{user}}', a: [1]}}]}]"
		req := model.Request{Messages: []perdure.Message{user, agent("one"), perdure.Text("go on")}}
		var before, after []model.Delta
		for d := range parse(t, script).Stream(t.Context(), req) {
			before = append(before, d)
		}

		for d := range parse(t, script).Stream(t.Context(), req) {
			after = append(after, d)
		}

		if diff := cmp.Diff(before, after); diff != "" || len(before) < 3 {
			t.Errorf("%d deltas before the restart; after it (-before +after):\n%s", len(before), diff)
		}
	})
}

// TestConditions: each condition, in a transcript in which it holds and in one in which it does
// not.
func TestConditions(t *testing.T) {
	t.Parallel()
	user, other := perdure.Text("deploy it"), perdure.Text("anything new?")
	talk := func(messages ...perdure.Message) []perdure.Message { return messages }
	ran := talk(user, agent("", called("c1", "bash")), result("c1", `{"exit":0}`))
	cases := []struct {
		when    string
		yes, no []perdure.Message
	}{
		{"last_role: user", talk(user), ran},
		{"last_role: tool_result", ran, talk(user)},
		{"last_role: notification", talk(user, note("done")), talk(note("done"), user)},
		{"last_contains: 'exit\":0'", ran, talk(user)},
		{"last_matches: '^dep.oy'", talk(user), talk(other)},
		{"last_matches: '(?s)^$'", nil, talk(user)},
		{"user_contains: deploy", ran, append(ran, other)},
		{"step: 0", talk(user, note("x")), talk(agent("a"))},
		{"step: 2", talk(agent("a"), user, agent("b")), talk(agent("a"))},
		{"turn_step: 0", talk(user, agent("a"), other), talk(user, agent("a"))},
		{"turn_step: 1", append(talk(agent("x"), note("n")), ran[1:]...), talk(agent("a"), note("x"))},
		{"notifications: 2", talk(note("a"), user, note("b"), note("c")), talk(note("a"), user)},
		{"called: bash", append(ran, other), talk(user)},
		{"not_called: bash", talk(user, agent("", called("c1", "read"))), ran},
		{"{last_role: user, last_contains: new, turn_step: 0}", talk(other), talk(user)},
	}
	for _, c := range cases {
		t.Run(c.when, func(t *testing.T) {
			t.Parallel()
			when := c.when
			if !strings.HasPrefix(when, "{") {
				when = "{" + when + "}"
			}
			m := parse(t, "rules: [{when: "+when+", text: it holds}]\nsteps: [{text: it does not, repeat: true}]")

			if got := say(t, m, c.yes...); got != "it holds" {
				t.Errorf("%s where it should hold", got)
			}
			if got := say(t, m, c.no...); got != "it does not" {
				t.Errorf("%s where it should not", got)
			}
		})
	}
}

func TestAttempt(t *testing.T) {
	t.Parallel()
	m := parse(t, `
rules:
- when: {attempt: 1}
  error: {code: provider_rate_limited, text: slow down, retry_after: 3s}
steps:
- text: at last
`)

	_, first := model.Collect(m.Stream(t.Context(), model.Request{Attempt: 1}), nil)
	_, zero := model.Collect(m.Stream(t.Context(), model.Request{}), nil)
	second := answer(t, m, model.Request{Attempt: 2})

	want := &model.Error{Code: model.RateLimited, Text: "slow down", RetryAfter: 3 * time.Second}
	if diff := cmp.Diff([]error{want, want}, []error{first, zero}); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if got := second.Message.Text(); got != "at last" {
		t.Errorf("got %q, want the answer", got)
	}
}

func TestModelName(t *testing.T) {
	t.Parallel()
	m := parse(t, "steps: [{text: a}]")
	for asked, want := range map[string]string{"": "scripted:demo", "big": "scripted:big", "scripted:big": "scripted:big"} {
		if got := answer(t, m, model.Request{Model: asked}).Model; got != want {
			t.Errorf("asked for %q, got %q, want %q", asked, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	estimated := parse(t, "steps: [{text: '12345678', thinking: '1234', calls: [{name: bash, args: {a: 1}}]}]")
	said := parse(t, "steps: [{text: a, usage: {input_tokens: 7, output_tokens: 5, cached_tokens: 3}}]")
	silent := parse(t, "steps: [{text: ''}]")
	req := model.Request{System: "12345678", Messages: []perdure.Message{perdure.Text("1234")}}

	got := []perdure.Usage{answer(t, estimated, req).Usage, answer(t, said, req).Usage, answer(t, silent, model.Request{}).Usage}

	want := []perdure.Usage{{InputTokens: 3, OutputTokens: 5}, {InputTokens: 7, OutputTokens: 5, CachedTokens: 3}, {InputTokens: 1, OutputTokens: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestStall: the stream is open, nothing comes, and ctx ends it.
func TestStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, "steps: [{stall: 10m, text: late}]")
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, gone)
		defer cancel()
		begun := time.Now()

		cut, err := model.Collect(m.Stream(ctx, model.Request{}), nil)
		waited := time.Since(begun)
		whole := answer(t, m, model.Request{})

		if !errors.Is(err, gone) || waited != 2*time.Minute || cut.Model == "" {
			t.Errorf("got %+v and %v after %s, want an open stream and %v after 2m", cut, err, waited, gone)
		}
		if got := time.Since(begun) - waited; got != 10*time.Minute || whole.Message.Text() != "late" {
			t.Errorf("got %q after %s, want it late, after 10m", whole.Message.Text(), got)
		}
	})
}
