package enginetest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func subagentLaws() []law {
	return []law{
		{"ForegroundAnswers", foregroundAnswers},
		{"BackgroundComesHome", backgroundAgentDelivered},
		{"SpawnHandleSameChild", sameChild},
		{"ParentToldAfterCrash", parentNotifiedAfterCrash},
		{"ChildOutcomeFromTurn", outcomeFromTurn},
		{"ChildCancelTellsParent", childCancelTellsParent},
		{"InterruptCancelsChild", interruptCancelsChild},
		{"BatchSpawnAdmission", batchAdmission},
		{"DepthIsLimited", depthLimited},
		{"QuestionShowsOnParent", questionShows},
		{"SchemaAskedOnceMore", schemaRepair},
		{"WordsBothWays", messagesBothWays},
		{"DetachedByHost", detachedAgent},
	}
}

// family is a script of a parent and a child: the child is the session whose message contains
// "piece".
func family(call string, child ...string) string {
	return `
rules:
` + strings.Join(child, "\n") + `
  - when: {last_role: notification, user_contains: go}
    text: "home: {{note}}"
  - when: {user_contains: go, not_called: spawn_subagent}
    calls: [` + call + `]
steps:
  - text: it goes on
    repeat: true
`
}

// says is a rule of the child: it answers.
func says(text string) string {
	return `  - when: {user_contains: piece, last_role: user}
    text: "` + text + `"`
}

// does is a rule of the child: it calls a tool, then answers with the result.
func does(tool, args string) []string {
	return []string{`  - when: {user_contains: piece, not_called: ` + tool + `}
    calls: [` + ask(tool, args) + `]`, `  - when: {user_contains: piece, last_role: tool_result}
    text: "the child has {{last}}"`}
}

const (
	oneChild  = "{name: spawn_subagent, args: {name: one, task: piece one}}"
	freeChild = "{name: spawn_subagent, args: {name: one, task: piece one, background: true}}"
)

// child returns the session of the parent's only subagent, once it exists.
func (s *scene) child() *scene {
	s.t.Helper()
	task := nth(s, 1, func(f perdure.TaskCreated) bool { return f.Task.Kind == perdure.KindSubagent }).Task
	return s.at(task.Links.ChildSession)
}

// at returns the scene of another session.
func (s *scene) at(id perdure.SessionID) *scene {
	other := *s
	other.id = id
	return &other
}

func foregroundAnswers(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, says("forty-two"))})
	s.say("go")
	s.rest()

	done, task := s.onlyResult("spawn_subagent"), s.onlyTask()
	if string(done.Result.Result) != `"forty-two"` || done.Status != perdure.StatusSuccess {
		t.Errorf("got %+v", done)
	}
	if task.Kind != perdure.KindSubagent || task.State != perdure.TaskSucceeded ||
		task.Delivered != perdure.DeliveredRead || task.Lane != perdure.Foreground {
		t.Errorf("got %+v", task)
	}
	if n := len(facts[perdure.TaskDelivered](s)); n != 0 {
		t.Errorf("delivered %d more times", n)
	}
	child := s.child().fold()
	if l := child.Lineage; l == nil || l.Parent != s.id || l.Root != s.id || l.Task != task.ID || l.Depth != 1 ||
		!child.Agent.Subagent {
		t.Errorf("got lineage %+v of %+v", l, child.Agent)
	}
}

func backgroundAgentDelivered(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(freeChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.turnEnds(1)
	s.Entered(t, "hold", 1)
	s.Release("hold")
	s.rest()

	task := s.onlyTask()
	if task.State != perdure.TaskSucceeded || task.Delivered != perdure.DeliveredInjected || task.ResultPath == "" {
		t.Errorf("got %+v", task)
	}
	if final := s.final(); !strings.Contains(final, "the child has") ||
		!strings.HasPrefix(final, "home: Background run completed.") {
		t.Errorf("the model received %q", final)
	}
}

// sameChild pins SA2: a call that runs again after a crash finds the child that it created.
func sameChild(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, does("hold_note", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold_note", 1)
	before := s.child().id
	s.crash()
	s.Entered(t, "hold_note", 2)
	s.crash()
	s.Entered(t, "hold_note", 3)
	s.Release("hold_note")
	s.rest()

	if after := s.onlyTask(); after.Links.ChildSession != before || after.State != perdure.TaskSucceeded {
		t.Errorf("before %s, after %+v", before, after)
	}
	if done := s.onlyResult("spawn_subagent"); done.Status != perdure.StatusSuccess {
		t.Errorf("got %+v", done)
	}
	keys := s.Effects("hold_note")
	if len(slices.Compact(slices.Clone(keys))) != 1 {
		t.Errorf("effects under %v", keys)
	}
	sessions, err := s.eng.Sessions().List(s.ctx, 0)
	if err != nil || len(sessions) != 2 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}

// parentNotifiedAfterCrash pins SA9: after a crash during the subagent's work, nobody waits for
// ever. TestSubagentCrashPoints of engine/local crashes at each transaction of a longer story.
func parentNotifiedAfterCrash(t *testing.T, open Harness) {
	for _, call := range []string{oneChild, freeChild} {
		s := begin(t, open, Setup{Script: family(call, does("hold", "{text: a}")...)})
		s.say("go")
		s.Entered(t, "hold", 1)
		s.Kill(t)
		s.Release("hold")
		s.eng = s.Start(t)
		s.rest()
		if task := s.onlyTask(); task.State != perdure.TaskSucceeded || task.Delivered == perdure.NotDelivered {
			t.Errorf("%s: got %+v", call, task)
		}
	}
}

// outcomeFromTurn pins SA9: a child that is idle while its own background run continues has no
// outcome yet.
func outcomeFromTurn(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(freeChild, `  - when: {user_contains: piece, last_role: notification}
    text: "the run was delivered"
  - when: {user_contains: piece, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {text: a}}}]
  - when: {user_contains: piece, last_role: tool_result}
    text: "it runs"`)})
	s.say("go")
	s.child().turnEnds(1)
	s.Entered(t, "bg_hold", 1)
	if task := s.onlyTask(); task.State != perdure.TaskRunning {
		t.Fatalf("got %+v", task)
	}
	s.Release("bg_hold")
	s.rest()
	if task := s.onlyTask(); task.State != perdure.TaskSucceeded || task.Summary != "the run was delivered" {
		t.Errorf("got %+v", task)
	}
	run := s.child().onlyTask() // only the session that started it is notified
	for id, want := range map[*scene][]perdure.TaskID{s: {s.onlyTask().ID}, s.child(): {run.ID}} {
		if told := facts[perdure.TaskDelivered](id); len(told) != 1 || !slices.Equal(told[0].TaskIDs, want) {
			t.Errorf("%s was notified of %+v, want %v", id.id, told, want)
		}
	}

	failing := begin(t, open, Setup{Script: family(oneChild, `  - when: {user_contains: piece}
    error: {code: provider_misconfigured, text: no key}`)})
	failing.say("go")
	failing.rest()
	done, task := failing.onlyResult("spawn_subagent"), failing.onlyTask()
	if task.State != perdure.TaskFailed || task.Error == nil || task.Error.Kind != perdure.ErrorTool ||
		done.Status != perdure.StatusError {
		t.Errorf("got %+v, %+v", task, done)
	}
}

func childCancelTellsParent(t *testing.T, open Harness) { // SA11
	s := begin(t, open, Setup{Script: family(freeChild, `  - when: {user_contains: piece, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {text: a}}}, {name: hold, args: {text: b}}]`)})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.Entered(t, "hold", 1)
	task, child := s.onlyTask(), s.child()
	if _, err := s.eng.Tasks().Cancel(s.ctx, task.ID, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	s.rest()
	child.rest()

	if task := s.onlyTask(); task.State != perdure.TaskCanceled || task.CancelBy != "user" ||
		task.CancelWhy != "enough" {
		t.Errorf("got %+v", task)
	}
	if below := child.onlyTask(); below.State != perdure.TaskCanceled ||
		below.FinishedAt.After(s.onlyTask().FinishedAt) {
		t.Errorf("below: got %+v", below)
	}
	if !strings.HasPrefix(s.final(), "home: Background run canceled.") {
		t.Errorf("the model received %q", s.final())
	}
	if canceled := facts[perdure.TurnCanceled](child); len(canceled) != 1 || canceled[0].By != "user" {
		t.Errorf("the child's turn: %+v", canceled)
	}
}

func interruptCancelsChild(t *testing.T, open Harness) { // RC8
	s := begin(t, open, Setup{Script: family(oneChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "stop"); err != nil {
		t.Fatal(err)
	}
	s.rest()
	s.child().rest()

	if task := s.onlyTask(); task.State != perdure.TaskCanceled {
		t.Errorf("got %+v", task)
	}
	if done := s.onlyResult("spawn_subagent"); done.Status != perdure.StatusInterrupted {
		t.Errorf("got %+v", done)
	}
}

func batchAdmission(t *testing.T, open Harness) { // SA4
	calls := strings.Repeat(freeChild+", ", 5)
	s := begin(t, open, Setup{SubagentsLive: 3, Script: family(strings.TrimSuffix(calls, ", "), does("hold", "{text: a}")...)})
	s.say("go")
	s.turnEnds(1)
	s.Entered(t, "hold", 3)
	refused := 0
	for _, f := range facts[perdure.ToolCompleted](s) {
		if f.Status == perdure.StatusError {
			refused++
			if !strings.Contains(f.Result.Error, "the number of running subagents is limited to 3, and it is 3") {
				t.Errorf("refused with %q", f.Result.Error)
			}
		}
	}
	if tasks := s.tasks(); refused != 2 || len(tasks) != 3 {
		t.Errorf("%d refused, %d tasks", refused, len(tasks))
	}
	s.Release("hold")
	s.rest()
}

func depthLimited(t *testing.T, open Harness) { // SA5
	s := begin(t, open, Setup{Script: family(oneChild, `  - when: {user_contains: piece, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: deeper, task: piece below}}]
  - when: {user_contains: piece, last_role: tool_result}
    text: "{{last}}"`)})
	s.say("go")
	s.rest()

	child := s.child()
	if depth := child.child().fold().Lineage.Depth; depth != 2 {
		t.Errorf("got depth %d", depth)
	}
	if got := string(s.onlyResult("spawn_subagent").Result.Result); !strings.Contains(got,
		"the depth of subagents is limited to 2, and it is 2") {
		t.Errorf("got %s", got)
	}
	sessions, err := s.eng.Sessions().List(s.ctx, 0)
	if err != nil || len(sessions) != 3 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}

func questionShows(t *testing.T, open Harness) { // SA10
	s := begin(t, open, Setup{Script: family(freeChild, does("ask", "{text: which}")...)})
	s.say("go")
	asked := nth(s, 1, func(f perdure.TaskUpdated) bool { return f.Task.State == perdure.TaskAwaitingInput }).Task
	if asked.Kind != perdure.KindSubagent || asked.InputRequest == nil {
		t.Fatalf("got %+v", asked)
	}
	answer := perdure.TaskMessage{Text: "this one", InReplyTo: asked.InputRequest.ID, By: "user"}
	if _, err := s.eng.Tasks().Send(s.ctx, asked.ID, answer); err != nil {
		t.Fatal(err)
	}
	s.Release("ask_after")
	s.rest()
	if task := s.onlyTask(); task.State != perdure.TaskSucceeded || task.InputRequest != nil {
		t.Errorf("got %+v", task)
	}

	approval := begin(t, open, Setup{Script: family(oneChild, does("needs", "{text: a}")...)})
	approval.say("go")
	shown := nth(approval, 1,
		func(f perdure.TaskUpdated) bool { return f.Task.State == perdure.TaskAwaitingInput }).Task
	if shown.InputRequest == nil || shown.InputRequest.Kind != "approval" {
		t.Fatalf("got %+v", shown)
	}
	approval.decide(approval.child().asked(1).ID, perdure.Verdict{Approve: true})
	approval.rest()
	if n := len(approval.Effects("needs")); n != 1 || approval.onlyTask().State != perdure.TaskSucceeded {
		t.Errorf("%d effects, %+v", n, approval.onlyTask())
	}
}

func schemaRepair(t *testing.T, open Harness) { // SA12
	call := `{name: spawn_subagent, args: {name: one, task: piece one, result_schema: {type: object, required: [n], properties: {n: {type: integer}}}}}`
	s := begin(t, open, Setup{Script: family(call, `  - when: {user_contains: Answer again}
    text: '{"n": 7}'`, says("seven"))})
	s.say("go")
	s.rest()
	if done := s.onlyResult("spawn_subagent"); string(done.Result.Result) != `{"n":7}` {
		t.Errorf("got %+v", done)
	}

	wrong := begin(t, open, Setup{Script: family(call, `  - when: {user_contains: Answer again}
    text: 'eight'`, says("seven"))})
	wrong.say("go")
	wrong.rest()
	if task := wrong.onlyTask(); task.State != perdure.TaskFailed || task.Error == nil ||
		task.Error.Kind != perdure.ErrorSchema {
		t.Errorf("got %+v", task)
	}
}

func messagesBothWays(t *testing.T, open Harness) { // TK11, TK14
	s := begin(t, open, Setup{Script: family(freeChild, `  - when: {user_contains: piece, not_called: message_parent}
    calls: [{name: message_parent, args: {text: half done}}, {name: hold, args: {text: a}}]
  - when: {user_contains: piece, last_role: tool_result}
    text: "done"`)})
	s.say("go")
	task := nth(s, 1, func(f perdure.TaskCreated) bool { return true }).Task
	s.Entered(t, "hold", 1)
	heard := nth[perdure.TaskMessageSent](s, 1, nil)
	if heard.Message.Text != "half done" || heard.Message.Task != task.ID {
		t.Errorf("got %+v", heard)
	}
	if _, err := s.eng.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{Text: "x", By: "user"}); !errors.Is(err,
		perdure.Conflict) {
		t.Errorf("got %v", err)
	}
	s.Release("hold")
	s.rest()
}

func detachedAgent(t *testing.T, open Harness) { // SA8
	s := begin(t, open, Setup{Script: family(oneChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	before := s.onlyTask()
	task, err := s.eng.Calls().Detach(s.ctx, s.called("spawn_subagent"), "user")
	if err != nil || task.ID != before.ID || task.Lane != perdure.Background {
		t.Fatalf("got %+v, %v; before %+v", task, err, before)
	}
	s.turnEnds(1)
	s.crash()
	s.Release("hold")
	s.rest()

	after := s.onlyTask()
	if after.State != perdure.TaskSucceeded || after.Delivered != perdure.DeliveredInjected {
		t.Errorf("got %+v", after)
	}
	if calls := s.ledger(); len(calls) != 1 || calls[0].State != perdure.CallSettled {
		t.Errorf("the ledger has %+v", calls)
	}
}
