package perdure_test

import (
	"testing"

	"github.com/perdure/perdure"
)

// TestDetachIntent walks through LN20: what the fold keeps of an intent to detach a call.
func TestDetachIntent(t *testing.T) {
	t.Parallel()
	keepAll(t, []law{
		{"a_running_call_is_to_be_detached_until_it_is_answered", detachIsDue},
		{"the_first_intent_stays", firstDetachStays},
		{"a_refused_intent_is_over", refusedDetachIsOver},
		{"a_call_that_ended_or_never_started_has_none", voidDetach},
		{"an_interrupt_comes_first", interruptBeforeDetach},
	})
}

// runningCalls has the model make calls, and returns those that run.
func runningCalls(t *testing.T, ids ...perdure.CallID) (*simulator, []perdure.RunCall) {
	t.Helper()
	w := asking(t, perdure.Agent{})
	var calls []asked
	for _, id := range ids {
		calls = append(calls, call(id))
	}
	w.settle(w.answer("", calls...)...)
	return w, w.runs()
}

func detachIsDue(t *testing.T) {
	w, runs := runningCalls(t, "a", "b")

	w.intend(perdure.ToolDetachRequested{CallID: runs[0].Call.ID})
	w.wake()

	for i, run := range w.runs() {
		if run.Detach != (i == 0) || run.Call.DetachIntent > 0 != (i == 0) {
			t.Errorf("call %d: %+v", i, run)
		}
	}
	w.settle(perdure.ToolDetached{CallID: runs[0].Call.ID, TaskID: "task_1", Reason: perdure.DetachedByHost}, done(runs[0].Call, `{}`))
	if left := w.runs(); len(left) != 1 || left[0].Detach {
		t.Errorf("due after the detach: %+v", left)
	}
}

func firstDetachStays(t *testing.T) {
	w, runs := runningCalls(t, "a")
	w.intend(perdure.ToolDetachRequested{CallID: runs[0].Call.ID})
	w.wake()
	first := w.runs()[0].Call.DetachIntent

	w.intend(perdure.ToolDetachRequested{CallID: runs[0].Call.ID})
	w.wake()

	if got := w.runs()[0].Call.DetachIntent; got != first || first == 0 {
		t.Errorf("intent %d became %d: one request would be carried out twice", first, got)
	}
}

func refusedDetachIsOver(t *testing.T) {
	w, runs := runningCalls(t, "a")
	id := runs[0].Call.ID
	w.intend(perdure.ToolDetachRequested{CallID: id})
	w.wake()
	first := w.runs()[0].Call.DetachIntent

	w.intend(perdure.ToolDetachRefused{CallID: id, Reason: "no slot"})
	w.wake()
	refused := w.runs()[0]
	w.intend(perdure.ToolDetachRequested{CallID: id})
	w.wake()

	if refused.Detach || w.session.Turn.DetachRequested(id) != true {
		t.Errorf("after the refusal %+v, after another intent %+v", refused, w.runs()[0])
	}
	if again := w.runs()[0]; !again.Detach || again.Call.DetachIntent <= first {
		t.Errorf("another intent is %+v, want one after %d", again, first)
	}
}

func voidDetach(t *testing.T) {
	w, runs := runningCalls(t, "a", "b")
	w.settle(done(runs[0].Call, `1`))

	w.intend(perdure.ToolDetachRequested{CallID: runs[0].Call.ID}, perdure.ToolDetachRequested{CallID: "call_none"})
	w.wake()
	for _, run := range w.runs() {
		if run.Detach {
			t.Errorf("due: %+v", run)
		}
	}
	w.settle(done(runs[1].Call, `2`))
	w.settle(w.answer("done")...)
	w.intend(perdure.ToolDetachRequested{CallID: runs[1].Call.ID}, perdure.ToolDetachRefused{CallID: runs[1].Call.ID})
	w.wake()

	if !w.rested {
		t.Errorf("due in an idle session: %+v", w.due)
	}
}

func interruptBeforeDetach(t *testing.T) {
	w, runs := runningCalls(t, "a")

	w.intend(perdure.ToolDetachRequested{CallID: runs[0].Call.ID})
	w.interrupted()

	if got := w.runs(); len(got) != 1 || !got[0].Stop || got[0].Detach {
		t.Errorf("due: %+v, want a stop", got)
	}
}
