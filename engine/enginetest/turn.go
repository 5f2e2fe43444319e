package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// oneTool is a turn with one tool call.
func oneTool(tool, args string) string {
	return `
steps:
  - calls: [{name: ` + tool + `, args: ` + args + `}]
  - text: done
    repeat: true
`
}

func turnLaws() []law {
	return []law{
		{"answers_a_message", answersMessage},
		{"costs_five_commits_with_one_tool_call", costsFiveCommits},
		{"claims_before_it_runs_and_settles_with_the_event", claimsAndSettles},
		{"gives_an_unknown_tool_an_error_result", unknownTool},
		{"refuses_wrong_arguments_before_the_claim", wrongArguments},
		{"tells_the_model_of_arguments_that_are_no_json", noJSON},
		{"hides_an_internal_error", hidesInternal},
		{"survives_a_panic", survivesPanic},
		{"keeps_the_models_order_of_results", keepsOrder},
		{"asks_again_after_a_retryable_error", retries},
		{"keeps_text_that_broke_off_and_goes_on", keepsTextThatBrokeOff},
		{"runs_no_call_of_a_message_that_broke_off", runsNoBrokenCall},
		{"fails_the_turn_on_a_final_error_and_lives_on", failsTurn},
		{"starts_the_next_turn_for_a_message_that_waited", nextTurn},
		{"replaces_a_call_id_that_was_used", replacesCallID},
	}
}

func answersMessage(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})

	s.say("hi")
	s.rest()

	if got := s.final(); got != "hello" {
		t.Errorf("got %q", got)
	}
}

// costsFiveCommits pins the five commits of a turn: received · turn and reason started · message
// and claim · settle and next reason started · message and turn end.
func costsFiveCommits(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {turn_step: 0}
    calls: [{name: echo, args: {text: a}}]
steps: [{text: x}, {text: done, repeat: true}]
`})
	least := s.leastCommits(5, func() {
		s.say("hi")
		s.rest()
	})

	if least != 5 {
		t.Errorf("got %d commits, want 5; journal:\n%s", least, s.journalText())
	}
}

func claimsAndSettles(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("charge", "{text: a}")})
	s.say("hi")
	s.rest()

	calls, err := s.eng.Calls().List(s.ctx, s.id)

	if err != nil || len(calls) != 1 {
		t.Fatalf("got %d calls, %v", len(calls), err)
	}
	call := calls[0]
	if call.State != perdure.CallSettled || call.Class != perdure.AtMostOnce || call.Executions != 1 ||
		string(call.Result.Result) != `{"charged":"a"}` {
		t.Errorf("got %+v", call)
	}
	if keys := s.Effects("charge"); len(keys) != 1 || keys[0] != call.Key.IdempotencyKey() {
		t.Errorf("effects under %v, want one under %s (LG10)", keys, call.Key.IdempotencyKey())
	}
}

func unknownTool(t *testing.T, open Harness) { // TL20
	s := begin(t, open, Setup{Script: oneTool("nonsense", "{}")})
	s.say("hi")
	s.rest()

	got := s.onlyResult("nonsense")

	if got.Result.Error != "Tool definition not found: nonsense" || !got.Result.NeverStarted || s.final() != "done" {
		t.Errorf("got %+v", got)
	}
}

func wrongArguments(t *testing.T, open Harness) { // TL22
	s := begin(t, open, Setup{Script: oneTool("charge", "{text: 5, more: 1}")})
	s.say("hi")
	s.rest()

	got := s.onlyResult("charge")
	calls, err := s.eng.Calls().List(s.ctx, s.id)

	if !strings.HasPrefix(got.Result.Error, "Invalid arguments for charge: ") || !got.Result.NeverStarted {
		t.Errorf("got %+v", got)
	}
	if strings.Count(got.Result.Error, ";") != 1 {
		t.Errorf("want both faults, got %q", got.Result.Error)
	}
	if err != nil || len(calls) != 0 || len(s.Effects("charge")) != 0 {
		t.Errorf("%d claims, %d effects, %v: nothing may be claimed", len(calls), len(s.Effects("charge")), err)
	}
}

func noJSON(t *testing.T, open Harness) { // TL22
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: note}
    text: I write it down.
    calls: [{name: note, raw_args: '{"text": "a'}, {name: note, raw_args: '{"text": "a", "text": "b"}'}]
steps: [{text: I try again, repeat: true}]
`})
	s.say("note it")
	s.rest()

	done := facts[perdure.ToolCompleted](s)
	if len(done) != 2 || len(s.Effects("note")) > 0 {
		t.Fatalf("got %+v, %d effects", done, len(s.Effects("note")))
	}
	for i, want := range []string{"Invalid arguments for note: /: invalid JSON",
		"Invalid arguments for note: /: invalid JSON at /text: duplicate key"} {
		if r := done[i].Result; !strings.HasPrefix(r.Error, want) || !r.NeverStarted {
			t.Errorf("got %+v, want %q", r, want)
		}
	}
	if s.final() != "I try again" {
		t.Errorf("final: %q", s.final())
	}
}

func hidesInternal(t *testing.T, open Harness) { // TL12
	s := begin(t, open, Setup{Script: oneTool("break", "{}")})
	s.say("hi")
	s.rest()

	if got := s.onlyResult("break"); got.Result.Error != perdure.GenericToolError ||
		strings.Contains(s.journalText(), "secret cause") {
		t.Errorf("got %+v", got)
	}
}

func survivesPanic(t *testing.T, open Harness) { // TL5
	s := begin(t, open, Setup{Script: oneTool("panic", "{}")})
	s.say("hi")
	s.rest()

	if got := s.onlyResult("panic"); got.Result.ErrorKind != perdure.ErrorPanic || s.final() != "done" {
		t.Errorf("got %+v", got)
	}
}

func keepsOrder(t *testing.T, open Harness) { // TN13
	s := begin(t, open, Setup{Script: `
steps:
  - calls: [{name: hold, args: {text: slow}}, {name: echo, args: {text: quick}}]
  - text: done
`})
	s.say("hi")
	s.Entered(t, "hold", 1)
	s.until("result of the quick call", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.ToolCompleted)
		return ok && f.Name == "echo"
	})
	s.Release("hold")
	s.rest()

	var names []string
	for _, m := range s.fold().Transcript {
		for _, p := range m.Parts {
			if p.Result != nil {
				names = append(names, string(p.Result.Result))
			}
		}
	}
	if len(names) != 2 || !strings.Contains(names[0], "held") || !strings.Contains(names[1], "quick") {
		t.Errorf("got %v", names)
	}
}

func retries(t *testing.T, open Harness) { // TN21
	s := begin(t, open, Setup{Script: `
rules:
  - when: {attempt: 1}
    error: {code: provider_unavailable, retry_after: 1ms}
steps: [{text: there it is}]
`})
	s.say("hi")
	s.rest()

	done := facts[perdure.ReasonCompleted](s)
	if len(done) != 2 || done[0].Success || done[0].Code != "provider_unavailable" || s.final() != "there it is" {
		t.Errorf("got %+v", done)
	}
	if n := len(facts[perdure.OutputStarted](s)); n != 1 {
		t.Errorf("%d messages started, want 1: a retry keeps its message (TN3)", n)
	}
}

func keepsTextThatBrokeOff(t *testing.T, open Harness) { // TN20, TN21
	s := begin(t, open, Setup{Script: `
steps:
  - text: it is in the second drawer
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: 16}
  - text: drawer of the desk
`})
	s.say("where is it?")
	s.rest()

	var texts []string
	for _, m := range s.fold().Transcript {
		texts = append(texts, fmt.Sprintf("%s %v %.16s", m.Role, m.Interrupted, m.Text()))
	}
	want := []string{"user false where is it?", "agent true it is in the sec", "notification false Your last messag",
		"agent false drawer of the de"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
	if n := len(facts[perdure.OutputCompleted](s)); n != 2 {
		t.Errorf("%d messages completed, want 2", n)
	}
}

func runsNoBrokenCall(t *testing.T, open Harness) { // TN7, TN20
	s := begin(t, open, Setup{Script: `
steps:
  - text: I look
    calls: [{name: echo, args: {text: a}}, {name: echo, args: {text: b}}]
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: 24}
  - text: I did not look
`})
	s.say("look")
	s.rest()

	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil || len(calls) > 0 || s.final() != "I did not look" {
		t.Errorf("got %d calls, %v, final %q", len(calls), err, s.final())
	}
	if done := facts[perdure.ReasonCompleted](s); len(done) != 2 || done[0].Discarded != 2 {
		t.Errorf("got %+v, want 2 discarded calls", done)
	}
}

func failsTurn(t *testing.T, open Harness) { // 4.6
	s := begin(t, open, Setup{Script: `
rules:
  - when: {user_contains: bad}
    error: {code: provider_quota_exhausted, text: no money}
steps: [{text: fine, repeat: true}]
`})
	s.say("bad")
	s.rest()
	failed := facts[perdure.TurnFailed](s)
	s.say("good")
	s.rest()

	if len(failed) != 1 || failed[0].Code != "provider_quota_exhausted" || failed[0].Retryable {
		t.Errorf("got %+v", failed)
	}
	if s.final() != "fine" {
		t.Errorf("the next turn answered %q", s.final())
	}
}

func nextTurn(t *testing.T, open Harness) { // DL10 queue, TN2
	s := begin(t, open, Setup{Script: `
steps:
  - calls: [{name: hold, args: {text: a}}]
  - text: first
  - text: second
`})
	s.say("one")
	s.Entered(t, "hold", 1)
	waiting := perdure.Text("two")
	waiting.Mode = perdure.ModeQueue
	if _, err := s.eng.Send(s.ctx, s.id, waiting); err != nil {
		t.Fatal(err)
	}
	s.Release("hold")
	s.rest()

	if turns := len(facts[perdure.TurnCompleted](s)); turns != 2 || s.final() != "second" {
		t.Errorf("%d turns, final %q", turns, s.final())
	}
}

func replacesCallID(t *testing.T, open Harness) { // N7
	s := begin(t, open, Setup{Script: `
steps:
  - calls: [{id: same, name: echo, args: {text: a}}]
  - calls: [{id: same, name: echo, args: {text: b}}]
  - text: done
`})
	s.say("hi")
	s.rest()

	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil || len(calls) != 2 || calls[0].Key == calls[1].Key {
		t.Errorf("got %d calls, %v: the second needs an id of its own", len(calls), err)
	}
}
