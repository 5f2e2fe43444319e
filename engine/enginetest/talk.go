package enginetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func talkLaws() []law {
	return []law{
		{"AskInForegroundBecomesTask", askBecomesTask},
		{"AskBlocksAndAnswers", askAnswers},
		{"AskIsAnsweredByTheModel", modelAnswers},
		{"AskGivesPlaceBack", askReleasesSlot},
		{"AskNeedsNoPlace", askNeedsNoSlot},
		{"AskSurvivesKill", askSurvives},
		{"AskTwiceSurvivesKill", askTwiceSurvives},
		{"AskOnceIsNotRunTwice", askOnceSurvives},
		{"AskStopsTheClock", askStopsTheClock},
		{"SecondAnswerConflict", secondAnswer},
		{"AnswerFailsSchemaStaysPending", answerFails},
		{"MessageReachesInbox", messageReaches},
		{"CancelWhileAsking", cancelWhileAsking},
		{"CancelWhileAskingAfterKill", cancelAfterKill},
	}
}

func askBecomesTask(t *testing.T, open Harness) { // TK15, DL7
	s := begin(t, open, Setup{Script: detachingScript(ask("ask", "{}"))})
	s.say("go")
	task := s.question(1)
	s.turnEnds(1)
	answer := s.onlyResult("ask")
	want := placeholder(task, `"reason":"awaiting_input"`,
		"Waiting for an answer — use check_background_tool to wait or cancel.")
	if left := s.awaitDetached(); left.Reason != perdure.DetachedByAsking || string(answer.Result.Result) != want {
		t.Errorf("left by %s with %s\nwant %s", left.Reason, answer.Result.Result, want)
	}
	session, err := s.eng.Sessions().Get(s.ctx, s.id)
	if task.InputRequest.Kind != "question" || task.InputRequest.Prompt != "which one?" || err != nil ||
		session.NeedsYou != 1 {
		t.Errorf("asked %+v; the session needs %d, %v", task.InputRequest, session.NeedsYou, err)
	}
	s.Release("ask_after")
	if err := s.answer(task, "the second"); err != nil {
		t.Fatal(err)
	}
	if got := s.awaitDelivered(perdure.TaskSucceeded); got.Result != `{"heard":"the second"}` || got.Executions != 1 ||
		len(s.results()) != 1 {
		t.Errorf("got %+v", got)
	}
}

func askAnswers(t *testing.T, open Harness) { // TK12: a spawned run can ask too
	s := begin(t, open, Setup{Script: spawning("ask", "{}")})
	s.say("go")
	task := s.question(1)
	if err := s.answer(task, "the first"); err != nil {
		t.Fatal(err)
	}
	s.Entered(t, "ask_after", 1)
	running := s.onlyTask()
	s.Release("ask_after")
	s.awaitDelivered(perdure.TaskSucceeded)

	messages, err := s.eng.Tasks().Messages(s.ctx, task.ID, "", 0)
	if err != nil || len(messages) != 2 || messages[0].Text != "which one?" ||
		messages[0].Direction != perdure.Outbound ||
		messages[1].Text != "the first" || messages[1].InReplyTo != task.InputRequest.ID || messages[1].By != "user" {
		t.Errorf("messages %+v, %v", messages, err)
	}
	if running.State != perdure.TaskRunning || running.InputRequest != nil {
		t.Errorf("after the answer the task was %+v", running)
	}
}

func modelAnswers(t *testing.T, open Harness) { // DL7, 8.5 message_task
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: notification, last_contains: is waiting for an answer}
    calls: [{name: message_task, args: {task_id: '{{(result "ask").task_id}}', text: from the model, in_reply_to: '{{slice (index (lines note) 3) 14}}'}}]
  - when: {last_role: notification}
    text: "home: {{note}}"
steps:
  - calls: [{name: ask, args: {}}]
  - text: it goes on
    repeat: true
`})
	s.Release("ask_after")
	s.say("go")
	if got := s.awaitDelivered(perdure.TaskSucceeded); got.Result != `{"heard":"from the model"}` {
		t.Errorf("got %+v; journal:\n%s", got, s.journalText())
	}
}

// askReleasesSlot pins TK15: another run gets the slot in the meantime, and the answered run
// waits for it.
func askReleasesSlot(t *testing.T, open Harness) {
	s := begin(t, open, Setup{PerSession: 1, Agent: perdure.Agent{SerialCalls: true}, Script: detachingScript(
		ask("spawn_background", "{tool: ask, title: Asks, args: {}}"),
		ask("spawn_background", "{tool: bg_hold, title: Holds, args: {}}"),
	)})
	s.say("go")
	task := s.question(1)
	s.Entered(t, "bg_hold", 1)
	if err := s.answer(task, "now"); err != nil {
		t.Fatal(err)
	}
	waits := s.onlyTaskOf(task.ID)
	s.Release("bg_hold")
	s.Entered(t, "ask_after", 1)
	runs := s.onlyTaskOf(task.ID)
	s.Release("ask_after")
	s.rest()

	if waits.State != perdure.TaskQueued || runs.State != perdure.TaskRunning {
		t.Errorf("the answered task was %s, then %s; want queued, then running", waits.State, runs.State)
	}
	if done := s.onlyTaskOf(task.ID); done.State != perdure.TaskSucceeded || done.Executions != 1 ||
		s.deliveries() != 2 {
		t.Errorf("got %+v, delivered %d", done, s.deliveries())
	}
}

// askNeedsNoSlot pins TK15: a run that waits for a person holds no slot, and needs none to start.
func askNeedsNoSlot(t *testing.T, open Harness) {
	s := begin(t, open, Setup{PerSessionDetached: 1, Script: `
rules:
  - when: {user_contains: more, not_called: ask}
    calls: [{name: ask, args: {}}, {name: stream_hold, args: {}}]
  - when: {not_called: hold}
    calls: [{name: hold, args: {}}]
steps: [{text: x}, {text: it goes on, repeat: true}]
`})
	s.say("go")
	s.detach("hold")
	s.turnEnds(1)
	s.say("more")
	s.Entered(t, "stream_hold", 1)
	_, full := s.eng.Calls().Detach(s.ctx, s.called("stream_hold"), "user")
	task := s.question(1)
	for _, tool := range []string{"stream_hold", "ask_after", "hold"} {
		s.Release(tool)
	}
	err := s.answer(task, "yes")
	s.rest()

	if got := s.onlyTaskOf(task.ID); !errors.Is(full, perdure.Conflict) || err != nil ||
		got.State != perdure.TaskSucceeded {
		t.Errorf("one more: %v; the answer: %v; got %+v", full, err, got)
	}
}

// askSurvives pins RC16 and TK15: the question stays, and the next attempt asks the same one.
func askSurvives(t *testing.T, open Harness) {
	for _, when := range []string{"answered_before", "answered_after", "answered_twice_dead"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(ask("ask", "{}"))})
			s.say("go")
			task := s.question(1)
			s.turnEnds(1)
			if when == "answered_before" {
				if err := s.answer(task, "yes"); err != nil {
					t.Fatal(err)
				}
				s.Entered(t, "ask_after", 1)
			}
			s.crash()
			if when == "answered_twice_dead" {
				s.crash()
			}
			s.Release("ask_after")
			if when != "answered_before" {
				if got := s.onlyTask(); got.State != perdure.TaskAwaitingInput ||
					got.InputRequest.ID != task.InputRequest.ID {
					t.Errorf("after the crash the task is %+v", got)
				}
				if err := s.answer(task, "yes"); err != nil {
					t.Fatal(err)
				}
			}
			got := s.awaitDelivered(perdure.TaskSucceeded)
			if got.Result != `{"heard":"yes"}` || got.Attempt != 2 || got.Executions != 2 {
				t.Errorf("got %+v", got)
			}
			if n := len(facts[perdure.TaskMessageSent](s)); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func askTwiceSurvives(t *testing.T, open Harness) { // 7.5: the nth question gets its own stored answer
	s := begin(t, open, Setup{Script: detachingScript(ask("ask_twice", "{}"))})
	s.say("go")
	first := s.question(1)
	if err := s.answer(first, "one"); err != nil {
		t.Fatal(err)
	}
	second := s.question(2)
	s.crash()
	if err := s.answer(second, "two"); err != nil {
		t.Fatal(err)
	}
	got := s.awaitDelivered(perdure.TaskSucceeded)
	if got.Result != `{"heard":"one two"}` || first.InputRequest.ID == second.InputRequest.ID ||
		len(facts[perdure.TaskMessageSent](s)) != 2 {
		t.Errorf("got %+v; journal:\n%s", got, s.journalText())
	}
}

// askOnceSurvives pins RC16: at-most-once work that has asked is not run again, with a slot or
// without one.
func askOnceSurvives(t *testing.T, open Harness) {
	for name, places := range map[string]int{"place_free": 2, "no_place": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{PerSession: places, Script: `
rules:
  - when: {user_contains: more, not_called: echo}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}, {name: echo, args: {text: a}}]
  - when: {last_role: notification}
    text: "home: {{note}}"
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: ask_once, args: {}}}]
steps: [{text: x}, {text: it runs, repeat: true}]
`})
			s.say("go")
			task := s.question(1)
			s.turnEnds(1)
			s.say("more")
			s.Entered(t, "bg_hold", 1)
			s.crash()
			s.Entered(t, "bg_hold", 2)
			if err := s.answer(task, "yes"); err != nil {
				t.Fatal(err)
			}
			s.Release("bg_hold")
			s.Release("ask_once_after")
			s.rest()

			if got := s.onlyTaskOf(task.ID); got.State != perdure.TaskUnknown || got.Executions != 1 {
				t.Errorf("got %+v; journal:\n%s", got, s.journalText())
			}
		})
	}
}

// askStopsTheClock pins TK15: the time in which a task waits for a person does not count, also
// after a crash (RC13).
func askStopsTheClock(t *testing.T, open Harness) {
	for name, dies := range map[string]bool{"live": false, "dead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Agent: answers, Script: detachingScript(ask("ask_late", "{}"), ask("client_late", "{}"))})
			s.say("go")
			task := s.question(1)
			if dies {
				s.crash()
			}
			nth(s, 1, func(f perdure.ToolCompleted) bool { return f.Name == "client_late" }) // it has the same deadline
			if err := s.answer(task, "now"); err != nil {
				t.Fatal(err)
			}
			got := s.awaitDelivered(perdure.TaskSucceeded)
			log, err := s.eng.Tasks().Log(s.ctx, task.ID, 0, 1000)
			if err != nil || len(log.Chunks) == 0 || string(log.Chunks[len(log.Chunks)-1].Bytes) != "asking\n" {
				t.Errorf("the log has %+v, %v (BG13)", log, err)
			}
			if got.Result != `{"heard":"now"}` || !got.DeadlineAt.After(task.DeadlineAt) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func secondAnswer(t *testing.T, open Harness) { // TK12
	s := begin(t, open, Setup{Script: detachingScript(ask("ask", "{}"))})
	s.say("go")
	task := s.question(1)
	first := s.answer(task, "yes")
	second := s.answer(task, "no")
	s.Release("ask_after")
	got := s.awaitDelivered(perdure.TaskSucceeded)
	late := s.answer(task, "no")

	if first != nil || !errors.Is(second, perdure.Conflict) || !errors.Is(late, perdure.Conflict) ||
		got.Result != `{"heard":"yes"}` {
		t.Errorf("first %v, second %v, late %v; heard %s", first, second, late, got.Result)
	}
}

func answerFails(t *testing.T, open Harness) { // TK12
	s := begin(t, open, Setup{Script: detachingScript(ask("ask_number", "{}"))})
	s.say("go")
	task := s.question(1)
	reply := func(data string) error {
		_, err := s.eng.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{
			Data: json.RawMessage(data), InReplyTo: task.InputRequest.ID, By: "user",
		})
		return err
	}
	words, text := reply(`{"n":"many"}`), s.answer(task, "many")
	between := s.onlyTask()
	right := reply(`{"n":3}`)
	s.Release("ask_number_after")
	got := s.awaitDelivered(perdure.TaskSucceeded)

	if !errors.Is(words, perdure.Invalid) || !errors.Is(text, perdure.Invalid) || right != nil {
		t.Errorf("wrong words %v, text %v, right %v", words, text, right)
	}
	if between.State != perdure.TaskAwaitingInput ||
		!strings.Contains(string(task.InputRequest.Expected), "integer") || !strings.Contains(got.Result, `\"n\":3`) {
		t.Errorf("between %+v; then %s", between, got.Result)
	}
}

func messageReaches(t *testing.T, open Harness) { // TK13
	s := begin(t, open, Setup{Script: spawning("inbox", "{}")})
	s.say("go")
	s.Entered(t, "inbox", 1)
	task := s.onlyTask()
	message := perdure.TaskMessage{ID: "tmsg_0123456789abcdef0123456789abcdef", Text: "hello", By: "user"}
	_, err := s.eng.Tasks().Send(s.ctx, task.ID, message)
	got := s.awaitDelivered(perdure.TaskSucceeded)
	_, late := s.eng.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{Text: "anybody?", By: "user"})
	_, unknown := s.eng.Tasks().Send(s.ctx, "task_0123456789abcdef0123456789abcdef", perdure.TaskMessage{
		Text: "anybody?", By: "user",
	})

	if err != nil || got.Summary != `heard: hello` {
		t.Errorf("%v; got %+v", err, got)
	}
	if !errors.Is(late, perdure.Conflict) || !errors.Is(unknown, perdure.NotFound) {
		t.Errorf("late %v, unknown %v", late, unknown)
	}
}

func cancelWhileAsking(t *testing.T, open Harness) { // RC1, TK15
	s := begin(t, open, Setup{Script: detachingScript(ask("ask", "{}"))})
	s.say("go")
	task := s.question(1)
	receipt := s.cancel(task.ID)
	got := s.awaitDelivered(perdure.TaskCanceled)
	late := s.answer(task, "yes")

	if receipt.SignalledAt.IsZero() && !s.spread() || got.InputRequest != nil || !errors.Is(late, perdure.Conflict) {
		t.Errorf("receipt %+v, late %v, got %+v", receipt, late, got)
	}
}

func cancelAfterKill(t *testing.T, open Harness) { // RC13 row 2
	for _, tool := range []string{"ask", "ask_once"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(ask(tool, "{}"))})
			s.say("go")
			task := s.question(1)
			s.crash()
			s.cancel(task.ID)
			if got := s.awaitDelivered(perdure.TaskCanceled); got.Executions != 1 || len(s.open()) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}
