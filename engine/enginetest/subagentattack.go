package enginetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// subagentAttackLaws cover requests at inconvenient times.
func subagentAttackLaws() []law {
	return []law{
		{"RoutedByHost", routedAgent},
		{"RoutedWithoutPlace", routedWithoutPlace},
		{"RoutedAndRefused", routedAndRefused},
		{"InterruptWakesNobody", interruptWakesNobody},
		{"InterruptOverCrash", interruptOverCrash},
		{"ChildInterruptedByPerson", childInterrupted},
		{"ApprovalClosedByCancel", approvalClosedByCancel},
		{"PersonSpeaksToStopped", personMessagesCanceled},
		{"PersonSpeaksAfterEnd", personSpeaksAfterEnd},
		{"OneAnswerOnly", oneAnswerOnly},
		{"GrandchildCanceled", grandchildCanceled},
		{"AnswersOfAllSizes", answersOfAllSizes},
		{"SchemasThatAreNone", schemasThatAreNone},
	}
}

// routedAgent pins SA8: a host that routes subagents to the background gets one record for each,
// across crashes.
func routedAgent(t *testing.T, open Harness) {
	s := begin(t, open, Setup{
		Script: family(oneChild, does("hold", "{text: a}")...), Background: []string{"spawn_subagent"},
	})
	s.say("go")
	s.turnEnds(1)
	s.Entered(t, "hold", 1)
	before := s.onlyTask()
	s.crash()
	s.Entered(t, "hold", 2)
	s.Release("hold")
	s.rest()

	task := s.onlyTask()
	if task.ID != before.ID || task.Origin != perdure.OriginRouted || task.State != perdure.TaskSucceeded ||
		!strings.Contains(task.Summary, "the child has") {
		t.Errorf("got %+v", task)
	}
	if calls := s.ledger(); len(calls) != 1 || calls[0].State != perdure.CallSettled {
		t.Errorf("the ledger has %+v", calls)
	}
}

func routedWithoutPlace(t *testing.T, open Harness) {
	first := `  - when: {user_contains: prepare, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}]`
	s := begin(t, open, Setup{
		Script: family(oneChild, first, says("forty-two")), Background: []string{"spawn_subagent"}, PerSession: 1,
	})
	s.say("prepare")
	s.turnEnds(1)
	s.Entered(t, "bg_hold", 1)
	s.say("go")
	s.turnEnds(2)
	agent := nth(s, 1, func(f perdure.TaskCreated) bool { return f.Task.Kind == perdure.KindSubagent }).Task
	if agent.State != perdure.TaskQueued {
		t.Fatalf("got %+v", agent)
	}
	s.crash()
	s.Entered(t, "bg_hold", 2)
	s.Release("bg_hold")
	s.rest()
	if got := s.ended(agent.ID); got.State != perdure.TaskSucceeded || got.Summary != "forty-two" ||
		len(s.tasks()) != 2 {
		t.Errorf("got %+v", got)
	}
}

func routedAndRefused(t *testing.T, open Harness) {
	calls := strings.Join([]string{freeChild, freeChild}, ", ")
	s := begin(t, open, Setup{
		Script: family(calls, does("hold", "{text: a}")...), Background: []string{"spawn_subagent"}, SubagentsLive: 1,
	})
	s.say("go")
	s.Entered(t, "hold", 1)
	refused := nth(s, 1, func(f perdure.TaskUpdated) bool { return f.Task.State.Terminal() }).Task
	if refused.State != perdure.TaskFailed || refused.Error == nil ||
		!strings.Contains(refused.Error.Message, "limited to 1, and it is 1") {
		t.Errorf("got %+v", refused)
	}
	s.Release("hold")
	s.rest()
	if n := len(s.tasks()); n != 2 {
		t.Errorf("%d tasks", n)
	}
}

// interruptWakesNobody pins that the end of a subagent whose call was interrupted starts no turn,
// because the user has interrupted the work.
func interruptWakesNobody(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.interrupt()
	s.rest()
	if n := s.turns(); n != 1 {
		t.Errorf("%d turns; journal:\n%s", n, s.journalText())
	}
}

// interruptOverCrash pins RC8 across a crash: the interrupt was recorded, but its call ended before
// it received it.
func interruptOverCrash(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.Stop(t)
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	s.eng = s.Start(t)
	s.rest()
	if task := s.onlyTask(); task.State != perdure.TaskCanceled {
		t.Errorf("got %+v", task)
	}
}

func childInterrupted(t *testing.T, open Harness) { // SA9
	s := begin(t, open, Setup{Script: family(oneChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.child().interrupt()
	s.rest()
	if task := s.onlyTask(); task.State != perdure.TaskCanceled || task.StateDetail != "canceled by user: enough" {
		t.Errorf("got %+v", task)
	}
	if done := s.onlyResult("spawn_subagent"); done.Result.ErrorKind != perdure.ErrorCanceled {
		t.Errorf("got %+v", done)
	}
}

func approvalClosedByCancel(t *testing.T, open Harness) { // SA11, AP10
	s := begin(t, open, Setup{Script: family(freeChild, does("needs", "{text: a}")...)})
	s.say("go")
	task := s.question(1)
	s.cancel(task.ID)
	s.rest()
	open1, err := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{State: perdure.ApprovalOpen})
	if err != nil || len(open1) > 0 || len(s.Effects("needs")) > 0 {
		t.Errorf("%d approvals are open, %v; effects %v", len(open1), err, s.Effects("needs"))
	}
	if got := s.onlyTask(); got.State != perdure.TaskCanceled || got.InputRequest != nil {
		t.Errorf("got %+v", got)
	}
}

// personMessagesCanceled pins that a person can start new work in a canceled subagent: the cancel
// stands.
func personMessagesCanceled(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(freeChild, `  - when: {user_contains: hello}
    text: "hello yourself"`, `  - when: {user_contains: piece, not_called: hold_stubborn}
    calls: [`+ask("hold_stubborn", "{text: a}")+`]`)})
	s.say("go")
	s.Entered(t, "hold_stubborn", 1)
	child, task := s.child(), s.onlyTask()
	s.cancel(task.ID)
	child.say("hello")
	s.Release("hold_stubborn")
	s.rest()
	child.rest()
	if got := s.onlyTask(); got.State != perdure.TaskCanceled {
		t.Errorf("got %+v", got)
	}
	if child.final() != "hello yourself" {
		t.Errorf("the child says %q", child.final())
	}
}

func personSpeaksAfterEnd(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, `  - when: {user_contains: hello}
    text: "hello yourself"`, says("forty-two"))})
	s.say("go")
	s.rest()
	before, turns := s.onlyTask(), s.turns()
	child := s.child()
	child.say("hello")
	child.rest()
	if child.final() != "hello yourself" {
		t.Errorf("the child says %q", child.final())
	}
	s.crash()
	s.rest()
	if after := s.onlyTask(); after.Summary != before.Summary || after.State != before.State ||
		after.UpdatedAt != before.UpdatedAt || s.turns() != turns {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func oneAnswerOnly(t *testing.T, open Harness) { // SA10
	s := begin(t, open, Setup{Script: family(freeChild, does("ask", "{text: which}")...)})
	s.say("go")
	asked := s.question(1)
	below := s.child().question(1)
	if asked.InputRequest.ID != below.InputRequest.ID {
		t.Fatalf("asked %+v, below %+v", asked.InputRequest, below.InputRequest)
	}
	if err := s.answer(below, "this one"); err != nil {
		t.Fatal(err)
	}
	if err := s.answer(asked, "that one"); !errors.Is(err, perdure.Conflict) {
		t.Errorf("got %v", err)
	}
	s.Release("ask_after")
	s.rest()
	if got := s.onlyTask(); got.State != perdure.TaskSucceeded || !strings.Contains(s.child().journalText(), "this one") ||
		strings.Contains(s.child().journalText(), "that one") {
		t.Errorf("got %+v", got)
	}
}

func grandchildCanceled(t *testing.T, open Harness) { // SA11
	s := begin(t, open, Setup{Script: family(oneChild, `  - when: {user_contains: below, not_called: hold}
    calls: [{name: hold, args: {}}]
  - when: {user_contains: below}
    text: "below is done"
  - when: {user_contains: piece, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: two, task: below}}]
  - when: {user_contains: piece, last_role: tool_result}
    text: "{{last}}"`)})
	s.say("go")
	s.Entered(t, "hold", 1)
	child := s.child()
	s.cancel(child.onlyTask().ID)
	s.rest()
	if got := child.onlyTask(); got.State != perdure.TaskCanceled {
		t.Errorf("below: got %+v", got)
	}
	if got := s.onlyTask(); got.State != perdure.TaskSucceeded || !strings.Contains(got.Summary, "canceled") {
		t.Errorf("got %+v", got)
	}
}

func answersOfAllSizes(t *testing.T, open Harness) {
	empty := begin(t, open, Setup{Script: family(oneChild, says(" "))})
	empty.say("go")
	empty.rest()
	if got := empty.onlyTask(); got.State != perdure.TaskFailed || got.Error.Kind != perdure.ErrorNoResult {
		t.Errorf("empty: got %+v", got)
	}
	for name, call := range map[string]string{"foreground": oneChild, "background": freeChild} {
		long := strings.Repeat("0123456789abcdef", 8<<10) // 128 KiB
		s := begin(t, open, Setup{Script: family(call, says(long))})
		s.say("go")
		s.rest()
		task := s.onlyTask()
		if task.State != perdure.TaskSucceeded || len(task.Summary) > 4096 || len(task.Result) > 8<<10 ||
			task.ResultPath == "" {
			t.Errorf("%s: %s, a summary of %d, a result of %d, %q",
				name, task.State, len(task.Summary), len(task.Result), task.ResultPath)
		}
		for _, m := range s.fold().Transcript {
			if n := len(m.Text()); n > 64<<10 {
				t.Errorf("%s: a message of %d bytes", name, n)
			}
			for _, p := range m.Parts {
				if p.Result != nil && len(p.Result.Result) > 64<<10 {
					t.Errorf("%s: a result of %d bytes", name, len(p.Result.Result))
				}
			}
		}
	}
}

func schemasThatAreNone(t *testing.T, open Harness) { // SA12
	for schema, want := range map[string]string{
		`"any"`:                               "result_schema is not a valid JSON Schema",
		`{type: nonsense}`:                    "result_schema is not a valid JSON Schema",
		`{$ref: "http://127.0.0.1:9/s.json"}`: "result_schema is not a valid JSON Schema",
		`{$ref: "file:///etc/passwd"}`:        "result_schema is not a valid JSON Schema",
		`null`:                                "", // not requested
		`{type: object, additionalProperties: 7}`: "result_schema is not a valid JSON Schema",
	} {
		s := begin(t, open, Setup{Script: family("{name: spawn_subagent, args: {name: one, task: piece one, result_schema: "+schema+"}}", says("forty-two"))})
		s.say("go")
		s.rest()
		done := s.onlyResult("spawn_subagent")
		if want == "" && done.Status != perdure.StatusSuccess || !strings.Contains(done.Result.Error, want) ||
			want != "" && len(s.tasks()) > 0 {
			t.Errorf("%s: got %+v", schema, done)
		}
	}
}
