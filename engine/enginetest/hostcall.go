package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

func hostCallLaws() []law {
	return []law{
		{"a_host_call_has_its_result_and_no_transcript", hostCallEnds},
		{"a_host_call_is_told_as_it_is_kept", hostCallWaited},
		{"a_host_call_is_there_before_it_is_answered", hostCallSurvives},
		{"a_host_call_that_a_crash_cut_is_not_repeated", hostCallUnknown},
		{"the_same_key_is_the_same_call", hostCallKey},
		{"a_call_joins_one_whose_reply_was_not_told", hostCallJoins},
		{"a_host_call_that_is_refused_was_never_there", hostCallRefused},
		{"host_calls_take_none_of_their_sessions_places", hostCallSlots},
		{"a_budget_holds_for_host_calls", hostCallBudget},
		{"a_host_call_waits_for_a_person_and_is_canceled", hostCallWaits},
		{"a_host_call_costs_two_commits", hostCallCommits},
	}
}

// host starts a call.
func (s *scene) host(o engine.HostCallRequest) engine.HostCall {
	s.t.Helper()
	o.Session = s.id
	if len(o.Args) == 0 {
		o.Args = json.RawMessage(`{"text":"a"}`)
	}
	made, err := s.eng.HostCalls().Start(s.ctx, o)
	if err != nil {
		s.t.Fatalf("StartCall: %v", err)
	}
	return made
}

// hostEnded waits for the end of a call, and checks that HostCalls.Find returns the same.
func (s *scene) hostEnded(id perdure.CallID) engine.HostCall {
	s.t.Helper()
	found := s.found(id)
	if found.Task == nil {
		s.t.Fatalf("call %s has no task", id)
	}
	told, err := s.eng.HostCalls().Wait(s.ctx, s.id, found)
	if err != nil {
		s.t.Fatalf("WaitCall: %v", err)
	}
	found = s.found(id)
	if diff := cmp.Diff(found, told); diff != "" {
		s.t.Errorf("the returned call differs from the stored one (-stored +returned):\n%s", diff)
	}
	return found
}

// allEnded waits for the end of every task of the session.
func (s *scene) allEnded() {
	s.t.Helper()
	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	for _, task := range tasks {
		if err == nil {
			_, err = s.eng.Tasks().Wait(s.ctx, task.ID)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) found(id perdure.CallID) engine.HostCall {
	s.t.Helper()
	found, err := s.eng.HostCalls().Find(s.ctx, perdure.CallKey{Session: s.id, Call: id})
	if err != nil {
		s.t.Fatalf("FindCall: %v", err)
	}
	return found
}

const justDone = "steps: [{text: done, repeat: true}]"

func hostCallEnds(t *testing.T, open Harness) { // M1, M5, DL7
	s := begin(t, open, Setup{Script: justDone})
	made := s.host(engine.HostCallRequest{Tool: "charge", Title: "Pay"})
	if made.Task == nil || made.Task.Origin != perdure.OriginHost || made.Task.DisplayName != "Pay" ||
		len(made.ID) != len("call_")+32 {
		t.Fatalf("got %+v", made)
	}
	done := s.hostEnded(made.ID)
	if done.Result == nil || string(done.Result.Result) != `{"charged":"a"}` ||
		done.Task.State != perdure.TaskSucceeded {
		t.Errorf("got %+v, %+v", done.Result, done.Task)
	}
	failed := s.hostEnded(s.host(engine.HostCallRequest{Tool: "fail", Args: json.RawMessage("{}")}).ID)
	if failed.Result == nil || failed.Result.Error != "boom" || failed.Task.State != perdure.TaskFailed {
		t.Errorf("got %+v, %+v", failed.Result, failed.Task)
	}
	s.rest()
	if n := len(s.fold().Transcript) + len(facts[perdure.TurnStarted](s)) +
		len(facts[perdure.TaskDelivered](s)); n != 0 {
		t.Errorf("a call of a host went into the transcript:\n%s", s.journalText())
	}
	if keys := s.Effects("charge"); len(keys) != 1 ||
		keys[0] != (perdure.CallKey{Session: s.id, Call: made.ID}).IdempotencyKey() {
		t.Errorf("effects under %v", keys)
	}
	other, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []perdure.CallKey{{Session: other.ID, Call: made.ID}, {Session: s.id, Call: made.ID + "0"},
		{Session: "session_0", Call: made.ID}} {
		if _, err := s.eng.HostCalls().Find(s.ctx, key); !errors.Is(err, perdure.NotFound) {
			t.Errorf("%s: got %v, want NotFound", key, err)
		}
		if _, err := s.eng.HostCalls().Wait(s.ctx, key.Session,
			engine.HostCall{ID: key.Call, Task: made.Task}); !errors.Is(err, perdure.NotFound) {
			t.Errorf("wait for %s: got %v, want NotFound", key, err)
		}
	}
}

func hostCallWaited(t *testing.T, open Harness) { // M1
	s := begin(t, open, Setup{Script: justDone})
	made := s.host(engine.HostCallRequest{Tool: "hold_note", Args: json.RawMessage(`{"text":"<a & b> \u2028"}`)})
	s.Entered(t, "hold_note", 1)
	other, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	var told engine.HostCall
	var foreign error
	var waits sync.WaitGroup
	waits.Go(func() { told, err = s.eng.HostCalls().Wait(s.ctx, s.id, made) })
	waits.Go(func() { _, foreign = s.eng.HostCalls().Wait(s.ctx, other.ID, made) })
	s.Release("hold_note")
	waits.Wait()
	if err != nil || told.Result == nil || told.Task.State != perdure.TaskSucceeded {
		t.Fatalf("got %+v, %v", told, err)
	}
	if !errors.Is(foreign, perdure.NotFound) {
		t.Errorf("got %v for a call of another session, want NotFound", foreign)
	}
	if diff := cmp.Diff(s.found(made.ID), told); diff != "" {
		t.Errorf("the returned call differs from the stored one (-stored +returned):\n%s", diff)
	}
	again, err := s.eng.HostCalls().Wait(s.ctx, s.id, told)
	if diff := cmp.Diff(told, again); err != nil || diff != "" {
		t.Errorf("got %v for one that has ended (-want +got):\n%s", err, diff)
	}
}

func hostCallSurvives(t *testing.T, open Harness) { // M1, RC13
	s := begin(t, open, Setup{Script: justDone})
	made := s.host(engine.HostCallRequest{Tool: "hold_note"})
	s.Entered(t, "hold_note", 1)
	s.crash()
	if found := s.found(made.ID); found.Task == nil || found.Task.ID != made.Task.ID || found.Result != nil {
		t.Errorf("got %+v", found)
	}
	s.Entered(t, "hold_note", 2)
	s.Release("hold_note")

	done := s.hostEnded(made.ID)
	if done.Result == nil || string(done.Result.Result) != `{"held":"a"}` || done.Task.Executions != 2 {
		t.Errorf("got %+v, %+v", done.Result, done.Task)
	}
	if keys := s.Effects("hold_note"); len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("effects under %v, want one key twice", keys)
	}
}

func hostCallUnknown(t *testing.T, open Harness) { // LG8, TK3
	s := begin(t, open, Setup{Script: justDone})
	made := s.host(engine.HostCallRequest{Tool: "hold_charge"})
	s.Entered(t, "hold_charge", 1)
	s.crash()

	done := s.hostEnded(made.ID)
	if done.Task.State != perdure.TaskUnknown || done.Result == nil || done.Result.ErrorKind != perdure.ErrorUnknown {
		t.Errorf("got %+v, %+v", done.Result, done.Task)
	}
	if err := s.eng.Tasks().Resolve(s.ctx, done.Task.ID,
		engine.Resolution{Answer: perdure.ResolveHappened, Result: json.RawMessage(`"yes"`), By: "operator"}); err != nil {
		t.Fatal(err)
	}
	if done = s.hostEnded(made.ID); done.Result == nil || string(done.Result.Result) != `"yes"` {
		t.Errorf("got %+v", done.Result)
	}
	if n := len(s.Effects("hold_charge")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// hostCallCommits pins the commits of a call without a turn: task and claim · artifacts, end and
// settle. A call with its complete result in the record has no artifacts (decision 029).
func hostCallCommits(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: justDone})
	long := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", perdure.MaxResultChars))
	for _, c := range []struct {
		order     engine.HostCallRequest
		artifacts bool
	}{
		{engine.HostCallRequest{Tool: "echo", Args: json.RawMessage(`{"text":"x"}`)}, false},
		{engine.HostCallRequest{Tool: "echo", Args: json.RawMessage(long)}, true},
		{engine.HostCallRequest{Tool: "fail", Args: json.RawMessage(`{"text":"boom"}`)}, true},
		{engine.HostCallRequest{Tool: "stream", Args: json.RawMessage(`{"text":"ok"}`)}, true}, // it writes output
	} {
		want := 2
		if s.spread() { // it is queued first
			want = 3
		}
		output := c.order.Tool == "stream" // it is written in the commit of the end or in one of its own
		if output {
			want++
		}
		least := s.leastCommits(want, func() {
			made := s.hostEnded(s.host(c.order).ID)
			if (made.Task.ResultPath != "") != c.artifacts || (made.Task.LogPath != "") != c.artifacts ||
				made.Task.Result == "" {
				t.Errorf("its artifacts: %+v", made.Task)
			}
			text := string(c.order.Args[len(`{"text":"`) : len(c.order.Args)-len(`"}`)])
			if made.Result == nil || !strings.Contains(string(made.Result.Result)+made.Result.Error, text) {
				t.Errorf("its result: %+v", made.Result)
			}
		})
		if least > want || least < want && !output {
			t.Errorf("got %d commits, want %d; journal:\n%s", least, want, s.journalText())
		}
	}
}

func hostCallKey(t *testing.T, open Harness) { // M4, R15
	s := begin(t, open, Setup{Script: justDone})
	first := s.host(engine.HostCallRequest{Tool: "charge", Key: "k"})
	s.hostEnded(first.ID)
	s.crash()
	again := s.host(engine.HostCallRequest{Tool: "charge", Key: "k"})
	if again.ID != first.ID || !again.Joined || again.Result == nil {
		t.Errorf("got %+v, want %s", again, first.ID)
	}
	for _, o := range []engine.HostCallRequest{
		{Session: s.id, Tool: "charge", Key: "k", Args: json.RawMessage(`{"text":"b"}`)},
		{Session: s.id, Tool: "note", Key: "k", Args: json.RawMessage(`{"text":"a"}`)},
	} {
		if made, err := s.eng.HostCalls().Start(s.ctx, o); !errors.Is(err, perdure.Conflict) {
			t.Errorf("%s %s: got %+v, %v, want Conflict", o.Tool, o.Args, made, err)
		}
	}
	if n := len(s.Effects("charge")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func hostCallJoins(t *testing.T, open Harness) { // M4
	s := begin(t, open, Setup{Script: justDone})
	order := engine.HostCallRequest{Tool: "charge", JoinWindow: time.Hour}
	first := s.host(order)
	s.hostEnded(first.ID)
	if again := s.host(order); again.ID != first.ID || !again.Joined {
		t.Errorf("got %s, want the call whose reply was not acknowledged, %s", again.ID, first.ID)
	}
	s.crash()
	if again := s.host(order); again.ID != first.ID || again.Result == nil {
		t.Errorf("after a crash: got %+v, want %s with its result", again, first.ID)
	}
	if other := s.host(engine.HostCallRequest{Tool: "charge", JoinWindow: time.Hour,
		Args: json.RawMessage(`{"text":"b"}`)}); other.ID == first.ID {
		t.Error("a call with other arguments joined")
	}
	never := s.host(engine.HostCallRequest{Tool: "charge"})
	if never.ID == first.ID {
		t.Error("a call without a join window joined")
	}
	for _, id := range []perdure.CallID{first.ID, first.ID, never.ID} {
		if err := s.eng.HostCalls().MarkReported(s.ctx, perdure.CallKey{Session: s.id, Call: id}); err != nil {
			t.Fatalf("ToldCall: %v", err)
		}
	}
	if again := s.host(order); again.ID == first.ID || again.Joined {
		t.Error("a call joined one with an acknowledged reply")
	}
	pure := engine.HostCallRequest{Tool: "echo", JoinWindow: time.Hour}
	if one, two := s.host(pure), s.host(pure); one.ID == two.ID {
		t.Error("a pure call joined")
	}
	s.allEnded()
}

func hostCallRefused(t *testing.T, open Harness) { // TL22, AP1
	s := begin(t, open, Setup{Script: justDone, Deny: []string{"charge"}})
	wrong := s.host(engine.HostCallRequest{Tool: "note", Args: json.RawMessage(`{"text":5,"more":true}`)})
	if wrong.Task != nil || wrong.Result == nil ||
		!strings.HasPrefix(wrong.Result.Error, "Invalid arguments for note:") || !wrong.Result.NeverStarted {
		t.Errorf("got %+v", wrong)
	}
	denied := s.host(engine.HostCallRequest{Tool: "charge"})
	if denied.Task != nil || denied.Result == nil || denied.Result.ErrorKind != perdure.ErrorDenied {
		t.Errorf("got %+v", denied)
	}
	if made, err := s.eng.HostCalls().Start(s.ctx, engine.HostCallRequest{Session: s.id, Tool: "no_such_tool"}); !errors.Is(err,
		perdure.NotFound) {
		t.Errorf("got %+v, %v, want NotFound", made, err)
	}
	if tasks, err := s.eng.Tasks().List(s.ctx, s.id); err != nil || len(tasks) != 0 ||
		len(s.Effects("charge"))+len(s.Effects("note")) != 0 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
}

func hostCallSlots(t *testing.T, open Harness) { // BG16
	s := begin(t, open, Setup{Script: justDone, PerSession: 1})
	for i := range 3 {
		made := s.host(engine.HostCallRequest{Tool: "hold", Args: json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, i))})
		s.Entered(t, "hold", i+1)
		// it was queued if it started before Run
		if task, err := s.eng.Tasks().Get(s.ctx, made.Task.ID); err != nil || task.State != perdure.TaskRunning {
			t.Errorf("call %d is %s, %v, want running", i, task.State, err)
		}
	}
	s.Release("hold")
	s.allEnded()
}

func hostCallBudget(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: justDone})
	b := s.cap(budget.Calls, "2")
	for range 2 {
		s.hostEnded(s.host(engine.HostCallRequest{Tool: "note"}).ID)
	}
	third := s.host(engine.HostCallRequest{Tool: "note"})
	if third.Task != nil || third.Result == nil || third.Result.ErrorKind != perdure.ErrorRejected ||
		!strings.Contains(third.Result.Error, "used up") {
		t.Errorf("got %+v, want a refusal", third)
	}
	if got := s.standing(b.ID); got.Spent != budget.Whole(2) || len(s.Effects("note")) != 2 {
		t.Errorf("got %+v and %d effects, want 2 spent", got, len(s.Effects("note")))
	}
}

func hostCallWaits(t *testing.T, open Harness) { // AP2, RC1
	s := begin(t, open, Setup{Script: justDone})
	for i, approve := range []bool{true, false} {
		made := s.host(engine.HostCallRequest{Tool: "needs"})
		if made.Task == nil || made.Task.State != perdure.TaskAwaitingInput {
			t.Fatalf("got %+v", made)
		}
		open, err := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{Session: s.id, State: perdure.ApprovalOpen})
		if err != nil || len(open) != 1 {
			t.Fatalf("%d approvals, %v", len(open), err)
		}
		if _, err := s.eng.Approvals().Decide(s.ctx, open[0].ID,
			perdure.Verdict{Approve: approve, By: "somebody"}); err != nil {
			t.Fatal(err)
		}
		done := s.hostEnded(made.ID)
		if done.Result == nil || done.Result.IsError() == approve || len(s.Effects("needs")) != 1 {
			t.Errorf("%d: got %+v, %d effects", i, done.Result, len(s.Effects("needs")))
		}
	}
	made := s.host(engine.HostCallRequest{Tool: "needs"})
	if _, err := s.eng.Tasks().Cancel(s.ctx, made.Task.ID, "somebody", "not needed"); err != nil {
		t.Fatal(err)
	}
	if done := s.hostEnded(made.ID); done.Task.State != perdure.TaskCanceled || done.Result == nil ||
		done.Result.ErrorKind != perdure.ErrorCanceled {
		t.Errorf("got %+v, %+v", done.Result, done.Task)
	}
}
