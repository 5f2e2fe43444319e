package enginetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func conversationLaws() []law {
	return []law{
		{"a_key_is_one_session", keyIsOneSession},
		{"a_key_cannot_change_its_agent", keyKeepsAgent},
		{"a_key_is_a_text", keyIsText},
		{"lists_root_sessions", listsRoots},
		{"refuses_negative_limits", refusesNegative},
		{"ask_returns_the_answer", askReturns},
		{"ask_again_sends_nothing_again", askAgain},
		{"ask_returns_what_waits_for_a_person", askReturnsHold},
		{"ask_lets_the_program_approve", askApproves},
		{"ask_returns_the_work_that_continues", askReturnsRunning},
		{"ask_says_why_a_turn_failed", askFails},
		{"attend_answers_questions", attendAnswers},
		{"a_task_has_a_typed_result", typedResult},
	}
}

const hello = "steps: [{text: hello, repeat: true}]"

func keyIsOneSession(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: hello})
	agent := perdure.Agent{Name: "one", Labels: perdure.Labels{"env": "test"}}
	ids := make([]perdure.SessionID, 8)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			made, err := s.eng.Sessions().Ensure(s.ctx, "an order: 7/ü", agent)
			if ids[i] = made.ID; err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	other, err := s.eng.Sessions().Ensure(s.ctx, "an order: 8/ü", agent)
	if err != nil {
		t.Fatal(err)
	}
	s.crash()
	again, err := s.eng.Sessions().Ensure(s.ctx, "an order: 7/ü", agent)

	if err != nil || other.ID == again.ID || !again.ID.HasKey() {
		t.Errorf("after a crash: %+v, %v; the other key has %s", again, err, other.ID)
	}
	for _, id := range ids {
		if id != again.ID {
			t.Errorf("got session %s, want %s", id, again.ID)
		}
	}
	list, err := s.eng.Sessions().List(s.ctx, 0)
	if err != nil || len(list) != 3 { // with that of the scene
		t.Errorf("%d sessions, want 3; %v", len(list), err)
	}
}

func keyKeepsAgent(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: hello})
	first, err := s.eng.Sessions().Ensure(s.ctx, "key", perdure.Agent{Instructions: "Be brief."})
	if err != nil {
		t.Fatal(err)
	}

	_, err = s.eng.Sessions().Ensure(s.ctx, "key", perdure.Agent{Instructions: "Be long."})

	if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), string(first.ID)) ||
		!strings.Contains(err.Error(), "use another key") {
		t.Errorf("got %v, want a conflict that names %s and what to do", err, first.ID)
	}
}

func keyIsText(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: hello})
	for name, key := range map[string]string{
		"empty": "", "too long": strings.Repeat("x", engine.MaxSessionKeyBytes+1), "not UTF-8": "\xff",
	} {
		if _, err := s.eng.Sessions().Ensure(s.ctx, key, perdure.Agent{}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}
	if _, err := s.eng.Sessions().Ensure(s.ctx, strings.Repeat("x", engine.MaxSessionKeyBytes), perdure.Agent{}); err != nil {
		t.Error(err)
	}
}

func listsRoots(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, says("done"))})
	s.say("go")
	s.rest()

	roots, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Roots: true})
	if err != nil || len(roots) != 1 || roots[0].ID != s.id {
		t.Errorf("roots: %+v, %v; want %s", roots, err, s.id)
	}
	all, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d sessions, want the root and its subagent; %v", len(all), err)
	}
	after := engine.SessionPlace{CreatedAt: all[0].CreatedAt, ID: all[0].ID}
	rest, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{After: after, Limit: 5})
	if err != nil || len(rest) != 1 || rest[0].ID != all[1].ID {
		t.Errorf("after %s: %+v, %v; want %s", all[0].ID, rest, err, all[1].ID)
	}
}

func refusesNegative(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: hello})
	for name, do := range map[string]func() error{
		"sessions":   func() error { _, err := s.eng.Sessions().List(s.ctx, -1); return err },
		"events":     func() error { _, err := s.eng.Events(s.ctx, s.id, 0, -1); return err },
		"iterations": func() error { return createErr(s, perdure.Agent{MaxIterations: -1}) },
		"calls":      func() error { return createErr(s, perdure.Agent{MaxParallelCalls: -2}) },
		"soft budget": func() error {
			return createErr(s, perdure.Agent{SoftBudgetMS: -2})
		},
	} {
		if err := do(); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}
	if err := createErr(s, perdure.Agent{SoftBudgetMS: -1}); err != nil { // never detaches
		t.Error(err)
	}
}

func createErr(s *scene, agent perdure.Agent) error {
	_, err := s.eng.Sessions().Create(s.ctx, agent)
	return err
}

func askReturns(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
steps:
  - text: I look.
    calls: [{name: echo, args: {text: a}}]
    usage: {input_tokens: 3, output_tokens: 2}
  - text: 'It said {{(result "echo").said}}.'
    usage: {input_tokens: 5, output_tokens: 4}
  - {text: more, repeat: true}
`})

	got, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go"))

	if err != nil || got.Text != "It said a." || got.StopReason != perdure.StopEnd || got.Turn == "" || got.Message == "" ||
		got.Usage.InputTokens != 8 || got.Usage.OutputTokens != 6 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got.Hold != nil || len(got.Running)+len(got.Approvals)+len(got.Questions) != 0 {
		t.Errorf("left over: %+v", got)
	}
	next, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("and then?"))
	if err != nil || next.Text != "more" || next.Turn == got.Turn {
		t.Errorf("the next answer: %+v, %v", next, err)
	}
	_, err = engine.Ask(s.ctx, s.eng, s.id, perdure.Text(""))
	if !errors.Is(err, perdure.Invalid) {
		t.Errorf("an empty message: %v, want Invalid", err)
	}
}

func askAgain(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("note", "{text: a}")})
	first, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go").WithKey("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("and then?").WithKey("2")); err != nil {
		t.Fatal(err)
	}
	s.crash()

	again, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go").WithKey("1"))

	if err != nil || again.Text != first.Text || again.Turn != first.Turn || again.Message != first.Message {
		t.Errorf("got %+v, %v; want %+v", again, err, first)
	}
	if n := len(facts[perdure.MessageReceived](s)); n != 2 || len(s.Effects("note")) != 1 {
		t.Errorf("%d messages, %d effects; want 2 and 1", n, len(s.Effects("note")))
	}
	_, err = engine.Ask(s.ctx, s.eng, s.id, perdure.Text("something else").WithKey("1"))
	if !errors.Is(err, perdure.Conflict) {
		t.Errorf("other content under the same key: %v, want Conflict", err)
	}
}

func askReturnsHold(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})

	got, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go").WithKey("1"))

	if err != nil || got.Hold == nil || got.Hold.Code != engine.HeldByApproval || len(got.Approvals) != 1 ||
		got.StopReason != "" {
		t.Fatalf("got %+v, %v; want the approval that it waits for", got, err)
	}
	s.decide(got.Approvals[0].ID, perdure.Verdict{Approve: true})
	done, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go").WithKey("1"))
	if err != nil || done.Text != "done" || done.Hold != nil || len(done.Approvals) != 0 {
		t.Errorf("after the approval: %+v, %v", done, err)
	}
	s.pause()
	paused, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("and then?"))
	if err != nil || paused.Hold == nil || paused.Hold.Code != engine.HeldByPerson || paused.Turn != "" {
		t.Errorf("in a paused session: %+v, %v", paused, err)
	}
}

func askApproves(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
steps:
  - calls: [{name: needs, args: {text: a}}, {name: needs, args: {text: b}}]
  - calls: [{name: needs, args: {text: c}}]
  - {text: done, repeat: true}
`})
	var asked []string
	c := engine.Conversation{Engine: s.eng, Session: s.id, OnApproval: func(_ context.Context, a perdure.Approval) (perdure.Verdict, error) {
		asked = append(asked, string(a.Args))
		return perdure.Verdict{Approve: !strings.Contains(string(a.Args), "b"), By: "user"}, nil
	}}

	got, err := c.Ask(s.ctx, perdure.Text("go"))

	if err != nil || got.Text != "done" || len(asked) != 3 || len(s.Effects("needs")) != 2 {
		t.Errorf("got %+v, %v; asked %v, %d effects", got, err, asked, len(s.Effects("needs")))
	}
	broken := errors.New("nobody is there")
	other := s.again()
	c.Session = other.id
	c.OnApproval = func(context.Context, perdure.Approval) (perdure.Verdict, error) { return perdure.Verdict{}, broken }
	if _, err := c.Ask(s.ctx, perdure.Text("go")); !errors.Is(err, broken) || len(other.open()) == 0 {
		t.Errorf("got %v with %d open approvals, want the error of the function and an open approval", err, len(other.open()))
	}
}

// again creates another session of the same agent.
func (s *scene) again() *scene {
	s.t.Helper()
	made, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{Instructions: "You are tested."})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.at(made.ID)
}

func askReturnsRunning(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{text: a}")})

	got, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go"))

	if err != nil || got.Text != "it runs" || len(got.Running) != 1 || got.Running[0].Tool != "bg_hold" {
		t.Errorf("got %+v, %v; want the run in the background", got, err)
	}
	s.Release("bg_hold")
	s.rest()
}

func askFails(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{error: {code: provider_quota_exhausted, text: no money}}]"})

	got, err := engine.Ask(s.ctx, s.eng, s.id, perdure.Text("go"))

	var why *engine.TurnError
	if !errors.As(err, &why) || why.Code != "provider_quota_exhausted" || why.Turn == "" || got.Turn != why.Turn {
		t.Errorf("got %+v, %v; want why the turn failed", got, err)
	}
}

func attendAnswers(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("ask", "{}"))})
	s.Release("ask_after")
	message := perdure.Text("go").WithKey("go")
	if _, err := engine.Ask(s.ctx, s.eng, s.id, message); err != nil {
		t.Fatal(err)
	}
	s.question(1) // the task may ask after the turn has ended

	got, err := engine.Ask(s.ctx, s.eng, s.id, message)
	if err != nil || len(got.Questions) != 1 || got.Questions[0].InputRequest.Prompt != "which one?" {
		t.Fatalf("got %+v, %v; want the question", got, err)
	}
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- engine.Conversation{Engine: s.eng, Session: s.id,
			OnQuestion: func(_ context.Context, task perdure.Task) (perdure.TaskMessage, error) {
				return perdure.TaskMessage{Text: "the second", By: "user"}, nil
			}}.Attend(ctx)
	}()

	task := s.awaitDelivered(perdure.TaskSucceeded)

	if task.Result != `{"heard":"the second"}` {
		t.Errorf("got %+v", task)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of its context", err)
	}
}

func typedResult(t *testing.T, open Harness) {
	type heard struct {
		Noted string `json:"noted"`
	}
	s := begin(t, open, Setup{Script: spawning("bg_note", "{text: a}")})
	s.say("go")
	s.rest()
	task := s.onlyTask()

	got, err := engine.TaskResult[map[string]any](s.ctx, s.eng, task.ID)

	if err != nil || len(got) == 0 {
		t.Errorf("got %v, %v; the task is %+v", got, err, task)
	}
	if _, err := engine.TaskResult[int](s.ctx, s.eng, task.ID); !errors.Is(err, perdure.Invalid) {
		t.Errorf("another type: %v, want Invalid", err)
	}
	if _, err := engine.TaskResult[heard](s.ctx, s.eng, "task_0123456789abcdef0123456789abcdef"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("no such task: %v, want NotFound", err)
	}

	failed := begin(t, open, Setup{Script: spawning("bg_fail", "{}")})
	failed.say("go")
	failed.rest()
	var why *engine.TaskFailure
	_, err = engine.TaskResult[heard](failed.ctx, failed.eng, failed.onlyTask().ID)
	if !errors.As(err, &why) || why.Task.State != perdure.TaskFailed || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want the failure of the task", err)
	}
}
