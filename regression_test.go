package perdure_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func TestRegressionSealForgotten(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	w.moment.NoProgress = 3
	w.settle(w.answer("", call("a"), call("b"))...)
	w.crash(1)
	w.crash(1)
	w.crash(1)
	w.crash(1)
	if !w.runs()[0].Stop {
		t.Fatal("not sealing")
	}
	w.settle(completed(w.runs()[0].Call, perdure.Failed("a", perdure.ErrorInterrupted, perdure.TextInterrupted)))
	w.crash(1) // while b stops
	for _, r := range w.runs() {
		fmt.Printf("after crash: run %s stop %t takeUps %d\n", r.Call.ID, r.Stop, w.takeUps)
	}
	if !w.runs()[0].Stop {
		t.Error("the seal is forgotten: b is run again")
	}
}

func TestRegressionRefusalBeforeSteer(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	w.receive("and this", perdure.ModeSteer)
	facts := w.answer("no")
	r := facts[2].(perdure.ReasonCompleted)
	r.Refusal = true
	facts[2] = r
	n := len(w.journal)
	w.settle(facts...)
	for _, ty := range w.since(n) {
		if ty == "turn.completed" {
			t.Error("TN1: row 4 (queued input) stands above row 5 (refusal)")
		}
	}
}

func TestRegressionEmptyAnswerFinal(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("let me look", call("a"))...)
	w.settle(done(w.runs()[0].Call, `1`))
	w.settle(w.failure(perdure.CodeEmptyAnswer, true)...)
	w.settle(w.failure(perdure.CodeEmptyAnswer, true)...)
	end := last[perdure.TurnCompleted](t, w)
	out := last[perdure.OutputCompleted](t, w)
	if end.FinalPreview != "" || end.FinalMessageID != out.Message.ID {
		t.Errorf("final %q %s, want the empty %s", end.FinalPreview, end.FinalMessageID, out.Message.ID)
	}
	if out.Interrupted {
		t.Errorf("an empty answer is recorded as interrupted: %+v", out)
	}
}

func TestRegressionEmptyAfterRetries(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	w.settle(w.failure("provider_unavailable", true)...)
	w.settle(w.failure(perdure.CodeEmptyAnswer, true)...)
	if w.rested {
		t.Error("TN22: the empty answer was not asked once more")
	}
}

func TestRegressionEmptyTokenClaim(t *testing.T) {
	t.Parallel()
	row := perdure.Call{State: perdure.CallRunning, Fingerprint: "f"}
	if got := perdure.DecideClaim(&row, perdure.Call{Fingerprint: "f"}, true); got != perdure.ClaimConflict {
		t.Errorf("got %s", got)
	}
}

func TestRegressionAskAfterEnd(t *testing.T) {
	t.Parallel()
	task := perdure.Task{State: perdure.TaskSucceeded, Attempt: 1}
	c, err := task.Update(perdure.TaskUpdate{Attempt: 1, InputRequest: &perdure.InputRequest{ID: "r"}}, time.Unix(1, 0))
	if c.Answer != perdure.UpdateSettled {
		t.Errorf("got %s %v", c.Answer, err)
	}
	c, err = task.Update(perdure.TaskUpdate{Attempt: 1, IncrementAttempt: true, Worker: "w2"}, time.Unix(1, 0))
	if c.Answer != perdure.UpdateSettled {
		t.Errorf("take-over of an ended task: got %s attempt %d %v", c.Answer, c.Task.Attempt, err)
	}
}

func TestRegressionRerunSameAttempt(t *testing.T) {
	t.Parallel()
	task := perdure.Task{State: perdure.TaskUnknown, Attempt: 1}
	c, err := task.Update(perdure.TaskUpdate{Attempt: 1, Rerun: true, State: perdure.TaskQueued}, time.Unix(1, 0))
	if err == nil {
		t.Errorf("got %s attempt %d", c.Task.State, c.Task.Attempt)
	}
}

func TestRegressionRerunKeepsCancel(t *testing.T) {
	t.Parallel()
	task := perdure.Task{State: perdure.TaskUnknown, Attempt: 1, CancelRequestedAt: time.Unix(1, 0), CancelBy: "ada", DeadlineAt: time.Unix(2, 0), StateDetail: "canceling", Worker: "w1"}
	c, _ := task.Update(perdure.TaskUpdate{Attempt: 1, Rerun: true, IncrementAttempt: true, State: perdure.TaskQueued}, time.Unix(9, 0))
	if c.Task.CancelRequested() || !c.Task.DeadlineAt.IsZero() {
		t.Errorf("got %+v", c.Task)
	}
}

func TestRegressionDeliveredOverwritten(t *testing.T) {
	t.Parallel()
	task := perdure.Task{State: perdure.TaskSucceeded, Attempt: 1, Delivered: perdure.DeliveredInjected}
	c, _ := task.Update(perdure.TaskUpdate{Attempt: 1, Delivered: perdure.NotDelivered}, time.Unix(9, 0))
	if c.Task.Delivered != perdure.DeliveredInjected {
		t.Errorf("got %s", c.Task.Delivered)
	}
	live := perdure.Task{State: perdure.TaskRunning, Attempt: 1, Delivered: perdure.NotDelivered}
	c, _ = live.Update(perdure.TaskUpdate{Attempt: 1, Delivered: perdure.DeliveredRead}, time.Unix(9, 0))
	if c.Task.Delivered != perdure.NotDelivered {
		t.Errorf("live: got %s", c.Task.Delivered)
	}
}

func TestRegressionReadThenRerun(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.settle(w.answer("", call("check"))...)
	w.ended(id, perdure.TaskUnknown)
	fact := done(w.runs()[0].Call, `{"status":"error"}`) // the tool read: unknown
	fact.Result.ReadTasks = []perdure.TaskID{id}
	// an operator, meanwhile
	w.update(id, perdure.TaskUpdate{Attempt: 1, Rerun: true, IncrementAttempt: true, State: perdure.TaskQueued})
	w.settle(fact)
	w.update(id, perdure.TaskUpdate{Attempt: 2, State: perdure.TaskRunning})
	w.update(id, perdure.TaskUpdate{Attempt: 2, State: perdure.TaskSucceeded})
	w.settle(w.answer("done")...)
	w.wantInjected(t, id, true)
}

func TestRegressionZeroDelivered(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{})
	task := w.newTask(perdure.TaskRunning)
	task.Delivered = ""
	w.intend(perdure.TaskCreated{Task: task})
	w.ended(task.ID, perdure.TaskSucceeded)
	w.wake()
	w.wantInjected(t, task.ID, true)
}

func TestRegressionStaleSnapshotDeliversTwice(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.ended(id, perdure.TaskSucceeded)
	stale := w.rows[id]
	w.wake()
	w.settle(w.answer("ok")...)
	stale.Links.RemoteTask = "r"
	s := w.session.Clone()
	_ = s.Apply(perdure.Event{Seq: s.Seq + 1, Fact: perdure.TaskUpdated{Task: stale}})
	if len(s.Undelivered) != 0 {
		t.Errorf("a snapshot that does not know of the delivery delivers again: %v", s.Undelivered)
	}
}

func TestRegressionEmptyErrorText(t *testing.T) {
	t.Parallel()
	r := perdure.Failed("a", perdure.ErrorTool, "")
	if r.Status() != perdure.StatusError || !r.IsError() {
		t.Errorf("got %s", r.Status())
	}
}

func TestRegressionResultID(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("", call("a"))...)
	s := w.session.Clone()
	err := s.Apply(perdure.Event{Seq: s.Seq + 1, Fact: perdure.ToolCompleted{CallID: "a", Result: perdure.ToolResult{CallID: "b"}}})
	if err == nil {
		t.Error("accepted a result of another call")
	}
}

func TestRegressionPlanOfOtherCalls(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	facts := w.answer("", call("a"), call("b"))
	s := w.session.Clone()
	facts[3] = perdure.ActStarted{Calls: []perdure.PlannedCall{{ID: "b"}, {ID: "b"}}}
	for _, f := range facts {
		if err := s.Apply(perdure.Event{Seq: s.Seq + 1, Fact: f}); err != nil {
			return
		}
	}
	t.Errorf("accepted a plan whose ids are not the message's: %+v", s.Turn.Calls)
}

func TestRegressionInterruptFirstWins(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	w.intend(perdure.InterruptRequested{By: "ada", Reason: "first"}, perdure.InterruptRequested{By: "bob", Reason: "second"})
	w.wake()
	w.settle(w.stopped("")...)
	if got := last[perdure.TurnCanceled](t, w).By; got != "ada" {
		t.Errorf("got %s", got)
	}
}

func TestRegressionScheduleIsNoPerson(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{MaxContinuations: 1})
	w.automatic(1)
	m := perdure.Text("tick")
	m.ID = "message_x"
	w.intend(perdure.MessageReceived{Message: m, Source: "schedule"})
	w.wake()
	if w.session.Continuations == 0 {
		t.Error("a schedule's message lifted the cap of automatic turns")
	}
}

func TestRegressionSecretPrinted(t *testing.T) {
	t.Parallel()
	m := perdure.Moment{Secret: perdure.Secret{0xab}}
	text, _ := json.Marshal(m)
	if strings.Contains(string(text), "171") {
		t.Error("JSON shows the secret")
	}
	if s := fmt.Sprintf("%#v", m); strings.Contains(s, "0xab") {
		t.Errorf("%%#v shows the secret")
	}
	if s := fmt.Sprintf("%d", m.Secret); strings.Contains(s, "171") {
		t.Errorf("%%d shows the secret")
	}
}

func TestRegressionMessageIDs(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	c, _ := w.model()
	if c.Message[len("message_")+12] == '7' {
		t.Errorf("N3: %s is a v7", c.Message)
	}
}

func TestRegressionNullSnapshot(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`null`, `{}`, `{"tasks":null,"id":"s"}`} {
		s, err := perdure.DecodeSnapshot(perdure.FoldVersion, []byte(body))
		if err != nil {
			continue
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s: %v", body, r)
				}
			}()
			_ = s.Apply(perdure.Event{Seq: 1, Fact: perdure.TaskCreated{Task: perdure.Task{ID: "t"}}})
		}()
		if s.ID == "" {
			t.Errorf("%s: a session without an id", body)
		}
	}
}

func TestRegressionZeroID(t *testing.T) {
	t.Parallel()
	if id, err := perdure.ParseID[perdure.TaskID]("task_" + strings.Repeat("0", 32)); err == nil {
		t.Errorf("N2: the zero id is accepted: %s", id)
	}
}

func TestRegressionDupMessage(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{})
	m := perdure.Text("x")
	m.ID = "message_1"
	w.intend(perdure.MessageReceived{Message: m, Key: "k"}, perdure.MessageReceived{Message: m, Key: "k"})
	s := w.fold(0)
	if len(s.Queue) != 1 {
		t.Errorf("DL12: one key, %d messages", len(s.Queue))
	}
}

func TestRegressionNoTools(t *testing.T) {
	t.Parallel()
	text, err := perdure.EncodeEvent(perdure.Event{Seq: 1, Fact: perdure.SessionCreated{Agent: perdure.Agent{Tools: []string{}}}})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := perdure.DecodeEvent(text)
	if e.Fact.(perdure.SessionCreated).Agent.Tools == nil {
		t.Errorf("an agent without tools comes back with all of them: %s", text)
	}
}

func TestRegressionNaNProgress(t *testing.T) {
	t.Parallel()
	z := 0.0
	nan := z / z
	task := perdure.Task{State: perdure.TaskRunning, Attempt: 1}
	c, err := task.Update(perdure.TaskUpdate{Attempt: 1, Progress: &perdure.Progress{Current: &nan}}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	c, err = c.Task.Update(perdure.TaskUpdate{Attempt: 1, State: perdure.TaskSucceeded}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := perdure.EncodeEvent(perdure.Event{Fact: perdure.TaskUpdated{Task: c.Task}}); err != nil {
		t.Errorf("the end cannot be recorded: %v", err)
	}
}

func TestRegressionMessageModel(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{Model: "agent-model"})
	m := perdure.Text("x")
	m.ID, m.Model = "message_1", "asked-model"
	w.intend(perdure.MessageReceived{Message: m})
	w.wake()
	if got := last[perdure.ReasonStarted](t, w).Model; got != "asked-model" {
		t.Errorf("N10: got %s", got)
	}
}

func TestRegressionUnknownState(t *testing.T) {
	t.Parallel()
	s := perdure.NewSession(sessionID)
	err := s.Apply(perdure.Event{Seq: 1, Fact: perdure.TaskCreated{Task: perdure.Task{ID: "t", State: "parked"}}})
	if err == nil {
		t.Errorf("TK5: accepted; at rest %t", s.AtRest())
	}
}

func TestRegressionTimes(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	now := time.Date(2026, 11, 21, 4, 0, 0, 123456789, time.FixedZone("CET", 3600))
	e := perdure.Event{Seq: w.session.Seq + 1, At: now, Fact: perdure.SessionUpdated{Title: "x"}}
	text, _ := perdure.EncodeEvent(e)
	back, _ := perdure.DecodeEvent(text)
	a, b := w.session.Clone(), w.session.Clone()
	_ = a.Apply(e)
	_ = b.Apply(back)
	if string(w.snapshot(a)) != string(w.snapshot(b)) {
		t.Error("PR2: the fold of the event differs from the fold of its stored form")
	}
	if strings.Contains(string(text), "789") {
		t.Errorf("microseconds: %s", text)
	}
}
