package perdure_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestApplyRefuses has the events that cannot follow: each is Conflict.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	none := func(*simulator) {}
	turn := func(w *simulator) { w.receive("do it", ""); w.wake() }
	acting := func(w *simulator) { turn(w); w.settle(w.answer("", call("a"), call("b"))...) }
	for _, c := range []struct {
		name string
		play func(*simulator)
		fact perdure.Fact
	}{
		{"a_turn_in_a_turn", turn, perdure.TurnStarted{TurnID: "turn_2"}},
		{"an_end_without_a_turn", none, perdure.TurnCompleted{}},
		{"a_reason_step_without_a_turn", none, perdure.ReasonStarted{}},
		{"a_result_without_a_turn", none, perdure.ToolCompleted{CallID: "a"}},
		{"a_bill_without_a_turn", none, perdure.Generation{}},
		{"a_start_of_an_unplanned_call", acting, perdure.ToolStarted{CallID: "x"}},
		{"a_second_start", acting, perdure.ToolStarted{CallID: "a"}},
		{"a_result_without_a_waiting_call", acting, perdure.ToolCompleted{CallID: "x"}},
		{"a_plan_of_more_calls_than_were_asked_for", acting, perdure.ActStarted{Calls: make([]perdure.PlannedCall, 3)}},
		{"a_second_result", func(w *simulator) { acting(w); w.settle(done(w.runs()[0].Call, `1`)) }, perdure.ToolCompleted{CallID: "a"}},
		{"a_start_after_the_result", func(w *simulator) { acting(w); w.settle(done(w.runs()[0].Call, `1`)) }, perdure.ToolStarted{CallID: "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newSimulator(t, perdure.Agent{})
			c.play(w)

			err := w.session.Apply(perdure.Event{Seq: w.session.Seq + 1, Fact: c.fact})

			if !errors.Is(err, perdure.Conflict) {
				t.Errorf("got %v, want Conflict", err)
			}
		})
	}
}

func TestApplyWantsEverySeq(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})
	for _, seq := range []int64{0, -1, 1, w.session.Seq, w.session.Seq + 2} {
		before := w.snapshot(w.session)

		err := w.session.Apply(perdure.Event{Seq: seq, Fact: perdure.SessionUpdated{Title: "x"}})

		if !errors.Is(err, perdure.Conflict) || !bytes.Equal(w.snapshot(w.session), before) {
			t.Errorf("seq %d after %d (EV1): got %v, want Conflict and no change", seq, w.session.Seq, err)
		}
	}
}

// TestApplyFileWritten: a change of a file moves the sequence, and nothing else, at rest and in a
// turn (FI9).
func TestApplyFileWritten(t *testing.T) {
	t.Parallel()
	for _, w := range []*simulator{newSimulator(t, perdure.Agent{}), asking(t, perdure.Agent{})} {
		want := w.session.Clone()

		err := w.session.Apply(perdure.Event{Seq: want.Seq + 1, At: w.now, Fact: perdure.FileWritten{Path: "/a", SizeBytes: 1}})

		want.Seq, want.UpdatedAt = want.Seq+1, w.now
		if diff := cmp.Diff(w.session, want); err != nil || diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	}
}

// TestApplyBillOfATool: what a tool used counts for the session, at rest too, and for the turn that
// it worked for.
func TestApplyBillOfATool(t *testing.T) {
	t.Parallel()
	used := perdure.Usage{InputTokens: 7, OutputTokens: 3}
	for name, c := range map[string]struct {
		w    *simulator
		of   func(*perdure.Session) perdure.TurnID
		turn perdure.Usage
	}{
		"at rest":         {newSimulator(t, perdure.Agent{}), func(*perdure.Session) perdure.TurnID { return "turn_gone" }, perdure.Usage{}},
		"in its turn":     {asking(t, perdure.Agent{}), func(s *perdure.Session) perdure.TurnID { return s.Turn.ID }, used},
		"in another turn": {asking(t, perdure.Agent{}), func(*perdure.Session) perdure.TurnID { return "turn_gone" }, perdure.Usage{}},
	} {
		s := c.w.session
		before, steps := s.Usage, 0
		if s.Turn != nil {
			steps = s.Turn.LLMCallCount
		}

		err := s.Apply(perdure.Event{Seq: s.Seq + 1, Turn: c.of(s), Fact: perdure.Generation{Usage: used, Tool: "ask"}})

		if err != nil || s.Usage != before.Add(used) {
			t.Errorf("%s: the session used %+v, %v", name, s.Usage, err)
		}
		if s.Turn != nil && (s.Turn.Usage != c.turn || s.Turn.LLMCallCount != steps) {
			t.Errorf("%s: the turn used %+v in %d steps", name, s.Turn.Usage, s.Turn.LLMCallCount)
		}
	}
}

// TestApplySkipsWhatItDoesNotKnow is EV10, at rest and in a turn: the sequence moves, and nothing
// else.
func TestApplySkipsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, w := range []*simulator{newSimulator(t, perdure.Agent{}), asking(t, perdure.Agent{})} {
		want := w.session.Clone()

		err := w.session.Apply(perdure.Event{Seq: want.Seq + 1, At: w.now.Add(time.Hour), Fact: perdure.UnknownFact{Kind: "turn.painted"}})

		want.Seq, want.UpdatedAt = want.Seq+1, w.now.Add(time.Hour)
		if diff := cmp.Diff(w.session, want); err != nil || diff != "" {
			t.Errorf("%v; session (-got +want):\n%s", err, diff)
		}
	}
}

func TestSessionFollowsItsJournal(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{Title: "first", Name: "ada", MaxIterations: 7})
	created := w.now
	if s := w.session; s.Status != perdure.SessionStarted || s.Title != "first" || s.Agent.Name != "ada" || !s.CreatedAt.Equal(created) {
		t.Errorf("after its creation: got %+v", s)
	}

	w.now = w.now.Add(time.Minute)
	w.intend(perdure.SessionUpdated{Title: "second"}, perdure.SessionUpdated{})
	message := perdure.Text("do it")
	message.ID = "message_1"
	w.intend(perdure.MessageReceived{Message: message, Mode: perdure.ModeSteer, Key: "k1"})
	w.wake()

	s := w.session
	if s.Status != perdure.SessionActive || s.Title != "second" || !s.CreatedAt.Equal(created) || !s.UpdatedAt.Equal(w.now) || s.AtRest() {
		t.Errorf("in a turn: got %+v, want it active, renamed, updated", s)
	}
	if got, _ := s.MessageKeys.Get("k1"); got != 4 {
		t.Errorf("the sender's key (DL12): got seq %d, want that of the message", got)
	}
	w.settle(w.answer("", call("a"))...)
	w.settle(done(w.runs()[0].Call, `1`))
	w.settle(w.answer("done")...)
	used, _ := w.session.UsedCalls.Get("a")
	if s := w.session; s.Status != perdure.SessionIdle || !used || s.Usage.InputTokens != 20 || !s.AtRest() {
		t.Errorf("at rest: got %+v, want it idle with what it used", s)
	}
}

func TestOpenTasks(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{})
	first := w.task(perdure.TaskQueued, perdure.Manual, perdure.WakeNone)
	second := w.task(perdure.TaskRunning, perdure.Manual, perdure.WakeNone) // at the same moment: by id
	w.now = w.now.Add(-time.Hour)
	oldest := w.task(perdure.TaskAwaitingInput, perdure.Manual, perdure.WakeNone)
	w.ended(w.task(perdure.TaskRunning, perdure.Manual, perdure.WakeNone), perdure.TaskSucceeded)
	w.wake()

	var got []perdure.TaskID
	for _, task := range w.session.OpenTasks() {
		got = append(got, task.ID)
	}
	if diff := cmp.Diff(got, []perdure.TaskID{oldest, first, second}); diff != "" {
		t.Errorf("open tasks (-got +want):\n%s", diff)
	}
	if w.session.AtRest() {
		t.Error("at rest while tasks are live")
	}
}

// TestDecodeSnapshotRefuses is O8: a snapshot that cannot be read is ignored, so decoding it must
// fail.
func TestDecodeSnapshotRefuses(t *testing.T) {
	t.Parallel()
	body := newSimulator(t, perdure.Agent{}).snapshot(perdure.NewSession(sessionID))
	for _, c := range []struct {
		name    string
		version int
		body    []byte
	}{
		{"an_older_version", perdure.FoldVersion - 1, body},
		{"a_newer_version", perdure.FoldVersion + 1, body},
		{"no_bytes", perdure.FoldVersion, nil},
		{"cut_off_bytes", perdure.FoldVersion, body[:len(body)-1]},
		{"another_shape", perdure.FoldVersion, []byte(`{"seq":"one"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := perdure.DecodeSnapshot(c.version, c.body); !errors.Is(err, perdure.Invalid) || got != nil {
				t.Errorf("got %+v, %v; want Invalid", got, err)
			}
		})
	}
}

// TestDecodeSnapshotOfNothing wants a session that can be used, though its maps were empty when it
// was written.
func TestDecodeSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{})
	w.session = w.restored(w.snapshot(w.session))

	w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.receive("do it", "")
	w.wake()
	w.settle(w.answer("", call("a"))...)
	w.settle(done(w.runs()[0].Call, `1`), perdure.ToolUnknown{CallID: "a"})

	if got := len(w.session.UnknownCalls); got != 1 {
		t.Errorf("unknown calls: got %d, want 1", got)
	}
}

// TestSuccessor is a step of a session: what stood before reads as before, however far the next
// ones go.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	s := perdure.NewSession(sessionID)
	var states []*perdure.Session
	var texts []string
	for n := range int64(600) {
		next := s.Successor()
		message := perdure.Text(fmt.Sprint("message ", n))
		message.ID = perdure.MessageID(fmt.Sprint("message_", n))
		fact := perdure.MessageReceived{Message: message, Mode: perdure.ModeQueue, Key: fmt.Sprint("key ", n)}
		if err := next.Apply(perdure.Event{Session: sessionID, Seq: n + 1, Fact: fact}); err != nil {
			t.Fatal(err)
		}
		text, err := perdure.EncodeSnapshot(next)
		if err != nil {
			t.Fatal(err)
		}
		states, texts, s = append(states, next), append(texts, string(text)), next
	}

	for i, state := range states {
		text, err := perdure.EncodeSnapshot(state)
		if err != nil || string(text) != texts[i] {
			t.Fatalf("state %d changed, or %v", i, err)
		}
		_, has := state.MessageKeys.Get(fmt.Sprint("key ", i))
		_, early := state.MessageKeys.Get(fmt.Sprint("key ", i+1))
		if !has || early {
			t.Fatalf("state %d: has its own key %t, has the next one %t", i, has, early)
		}
		read, err := perdure.DecodeSnapshot(perdure.FoldVersion, []byte(texts[i]))
		if err != nil || !read.MessageKeys.Equal(state.MessageKeys) {
			t.Fatalf("state %d reads back with other keys, or %v", i, err)
		}
	}
}

// TestCheckTitle: a title is 1 to 512 bytes of text.
func TestCheckTitle(t *testing.T) {
	t.Parallel()
	for title, ok := range map[string]bool{
		"a": true, strings.Repeat("a", perdure.MaxTitleBytes): true,
		"": false, strings.Repeat("a", perdure.MaxTitleBytes+1): false, "\xff": false,
	} {
		if err := perdure.CheckTitle(title); (err == nil) != ok || !ok && !errors.Is(err, perdure.Invalid) {
			t.Errorf("%.20q, %d bytes: got %v", title, len(title), err)
		}
	}
}
