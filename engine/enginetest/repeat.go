package enginetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// repeatLaws cover a repeated call while the outcome of the first one is unknown (decision 031).
func repeatLaws() []law {
	return []law{
		{"a_host_call_is_not_repeated_while_it_is_unknown", hostRepeats},
		{"a_host_call_that_was_resolved_is_answered_once_with_the_word", hostRepeatsResolved},
		{"a_host_call_that_runs_again_by_an_operators_word_is_that_call", hostRepeatsRerun},
		{"a_host_call_of_a_dead_worker_is_not_repeated", hostRepeatsAtOnce},
		{"a_model_does_not_repeat_a_call_while_it_is_unknown", modelRepeats},
		{"a_person_is_not_asked_about_a_call_that_is_unknown", modelRepeatsAsked},
		{"a_background_run_is_not_repeated_while_it_is_unknown", spawnRepeats},
	}
}

// unknownHost is a host call of hold_charge with an unknown outcome.
func unknownHost(t *testing.T, open Harness) (*scene, engine.HostCall) {
	s := begin(t, open, Setup{Script: justDone})
	made := s.host(engine.HostCallRequest{Tool: "hold_charge"})
	s.Entered(t, "hold_charge", 1)
	s.crash()
	done := s.hostEnded(made.ID)
	if done.Task.State != perdure.TaskUnknown {
		t.Fatalf("got %+v, want an unknown task", done.Task)
	}
	return s, done
}

// resolve records an operator's resolution of a task.
func (s *scene) resolve(id perdure.TaskID, word engine.Resolution) {
	s.t.Helper()
	word.By = "operator"
	if err := s.eng.Tasks().Resolve(s.ctx, id, word); err != nil {
		s.t.Fatal(err)
	}
}

// charged checks the number of effects of hold_charge.
func (s *scene) charged(want int) {
	s.t.Helper()
	if got := len(s.Effects("hold_charge")); got != want {
		s.t.Errorf("%d effects, want %d", got, want)
	}
}

func hostRepeats(t *testing.T, open Harness) {
	s, first := unknownHost(t, open)

	again := s.host(engine.HostCallRequest{Tool: "hold_charge"})
	if again.ID != first.ID || !again.Joined || again.Result == nil ||
		again.Result.ErrorKind != perdure.ErrorUnknown || again.Task == nil || again.Task.ID != first.Task.ID {
		t.Errorf("the same call again: got %+v, want %s with its unknown outcome", again, first.ID)
	}
	s.charged(1)

	s.Release("hold_charge")
	for i, o := range []engine.HostCallRequest{
		{Tool: "hold_charge", Key: "new"}, {Tool: "hold_charge", Args: json.RawMessage(`{"text":"b"}`)},
	} {
		other := s.host(o)
		if done := s.hostEnded(other.ID); other.ID == first.ID || done.Task.State != perdure.TaskSucceeded {
			t.Errorf("call %d: got %+v, want a call of its own", i, done.Task)
		}
	}
	s.charged(3)

	s.resolve(first.Task.ID, engine.Resolution{Answer: perdure.ResolveDidNotHappen})
	if next := s.host(engine.HostCallRequest{Tool: "hold_charge"}); next.ID == first.ID ||
		s.hostEnded(next.ID).Task.State != perdure.TaskSucceeded {
		t.Errorf("after the resolution: got %+v, want a new call", next)
	}
	s.charged(4)
}

func hostRepeatsResolved(t *testing.T, open Harness) {
	s, first := unknownHost(t, open)
	key := perdure.CallKey{Session: s.id, Call: first.ID}
	if err := s.eng.HostCalls().MarkReported(s.ctx, key); err != nil {
		t.Fatal(err)
	}
	s.resolve(first.Task.ID, engine.Resolution{Answer: perdure.ResolveHappened, Result: json.RawMessage(`"yes"`)})

	again := s.host(engine.HostCallRequest{Tool: "hold_charge"})
	if again.ID != first.ID || !again.Joined || again.Result == nil || string(again.Result.Result) != `"yes"` {
		t.Errorf("got %+v, want %s as it was resolved", again, first.ID)
	}
	if err := s.eng.HostCalls().MarkReported(s.ctx, key); err != nil {
		t.Fatal(err)
	}
	s.charged(1)

	s.Release("hold_charge")
	if next := s.host(engine.HostCallRequest{Tool: "hold_charge"}); next.ID == first.ID ||
		s.hostEnded(next.ID).Task.State != perdure.TaskSucceeded {
		t.Errorf("after its acknowledgement: got %+v, want a new call", next)
	}
	s.charged(2)
}

func hostRepeatsRerun(t *testing.T, open Harness) {
	s, first := unknownHost(t, open)
	s.resolve(first.Task.ID, engine.Resolution{Answer: perdure.ResolveRunAgain})
	s.Entered(t, "hold_charge", 2)

	again := s.host(engine.HostCallRequest{Tool: "hold_charge"})
	if again.ID != first.ID || !again.Joined {
		t.Errorf("got %+v, want %s, which runs again", again, first.ID)
	}
	s.Release("hold_charge")

	if done := s.hostEnded(again.ID); done.Task.State != perdure.TaskSucceeded || done.Task.Executions != 2 {
		t.Errorf("got %+v", done.Task)
	}
	s.charged(2)
}

// hostRepeatsAtOnce repeats the call as soon as the next engine is running, possibly before that
// engine has recovered the first call.
func hostRepeatsAtOnce(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: justDone})
	made := s.host(engine.HostCallRequest{Tool: "hold_charge"})
	s.Entered(t, "hold_charge", 1)
	s.crash()

	again := s.host(engine.HostCallRequest{Tool: "hold_charge"})

	if done := s.hostEnded(again.ID); again.ID != made.ID || done.Task.State != perdure.TaskUnknown {
		t.Errorf("got %+v, want %s, whose outcome is unknown", done.Task, made.ID)
	}
	s.charged(1)
}

func modelRepeats(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
steps:
  - calls: [{id: call_first, name: hold_charge, args: {text: a}}]
  - calls: [{id: call_again, name: hold_charge, args: {text: a}}]
  - calls: [{id: call_wrong, name: hold_charge, args: {text: a, perdure_repeats: call_again}}]
  - calls: [{id: call_other, name: hold_charge, args: {text: b}}]
  - calls: [{id: call_meant, name: hold_charge, args: {text: a, perdure_repeats: call_first}}]
  - {text: done}
  - calls: [{id: call_later, name: hold_charge, args: {text: a}}]
  - {text: done}
`})
	s.say("hi")
	s.Entered(t, "hold_charge", 1)
	s.crash()
	s.Release("hold_charge")
	s.rest()

	got := map[perdure.CallID]perdure.ToolCompleted{}
	for _, f := range facts[perdure.ToolCompleted](s) {
		got[f.CallID] = f
	}
	for _, id := range []perdure.CallID{"call_again", "call_wrong"} {
		r := got[id].Result
		if got[id].Status != perdure.StatusUnknown || !r.NeverStarted ||
			!strings.Contains(r.Error, "perdure call resolve "+string(s.id)+"/call_first") ||
			!strings.Contains(r.Error, `"perdure_repeats": "call_first"`) {
			t.Errorf("%s: got %s %q, want the unknown outcome of call_first and how it is resolved",
				id, got[id].Status, r.Error)
		}
	}
	for _, id := range []perdure.CallID{"call_other", "call_meant"} {
		if got[id].Status != perdure.StatusSuccess {
			t.Errorf("%s: got %s %q", id, got[id].Status, got[id].Result.Error)
		}
	}
	s.charged(3)
	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil || len(calls) != 3 || calls[2].Key.Call != "call_meant" || string(calls[2].Args) != `{"text":"a"}` {
		t.Errorf("the ledger has %+v, %v, want three calls, the last one without the non-argument", calls, err)
	}

	word := engine.Resolution{Answer: perdure.ResolveDidNotHappen, By: "operator"}
	if err := s.eng.Calls().Resolve(s.ctx, perdure.CallKey{Session: s.id, Call: "call_first"}, word); err != nil {
		t.Fatal(err)
	}
	s.say("again")
	s.rest()
	s.charged(4)
}

func modelRepeatsAsked(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Ask: []string{"hold_charge"}, Script: `
steps:
  - calls: [{id: call_first, name: hold_charge, args: {text: a}}]
  - calls: [{id: call_again, name: hold_charge, args: {text: a}}]
  - {text: done}
`})
	s.say("hi")
	s.decide(s.asked(1).ID, perdure.Verdict{Approve: true})
	s.Entered(t, "hold_charge", 1)
	s.crash()
	s.rest()

	if n := len(facts[perdure.ApprovalRequested](s)); n != 1 {
		t.Errorf("a person was asked %d times, want once", n)
	}
	s.charged(1)
}

func spawnRepeats(t *testing.T, open Harness) {
	const run = "name: spawn_background, args: {tool: bg_charge, args: {text: a}"
	s := begin(t, open, Setup{Script: `
rules:
  - when: {user_contains: task_, last_role: user}
    calls: [{id: call_meant, ` + run + `, perdure_repeats: "{{user}}"}}]
steps:
  - calls: [{id: call_first, ` + run + `}}]
  - {text: it runs}
  - calls: [{id: call_again, ` + run + `}}]
  - {text: done, repeat: true}
`})
	s.say("go")
	s.Entered(t, "bg_charge", 1)
	s.turnEnds(1)
	s.crash()
	s.rest()
	task := s.onlyTask()
	if task.State != perdure.TaskUnknown {
		t.Fatalf("got %+v, want an unknown task", task)
	}

	refused := 0
	for _, f := range facts[perdure.ToolCompleted](s) {
		if f.CallID == "call_again" && strings.Contains(f.Result.Error, "perdure task resolve "+string(task.ID)) {
			refused++
		}
	}
	if refused != 1 || len(s.Effects("bg_charge")) != 1 {
		t.Errorf("%d answers, %d effects, want one of each; journal:\n%s",
			refused, len(s.Effects("bg_charge")), s.journalText())
	}

	s.say(string(task.ID))
	s.Entered(t, "bg_charge", 2)
	s.Release("bg_charge")
	s.rest()
}
