package perdure_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestDecideConcurrency is the list of TN12: which calls of a step run at once, and in which order
// they start.
func TestDecideConcurrency(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		agent   perdure.Agent
		classes []string // of the calls c0, c1, …; empty: free
		peak    int
		starts  []perdure.CallID // empty: in the model's order
	}{
		{name: "TN12_3_free_calls_peak_3", classes: []string{"", "", ""}, peak: 3},
		{name: "TN12_one_class_peaks_1_in_order", classes: []string{"x", "x", "x", "x"}, peak: 1},
		{name: "TN12_2_and_2_mixed_peak_3", classes: []string{"", "x", "", "x"}, peak: 3, starts: []perdure.CallID{"c0", "c1", "c2", "c3"}},
		{name: "TN11_different_classes_run_together", classes: []string{"x", "y", "x", "y"}, peak: 2},
		{name: "TN12_cap_2_with_10_calls_peaks_2", agent: perdure.Agent{MaxParallelCalls: 2}, classes: make([]string, 10), peak: 2},
		{name: "TN12_serial_peaks_1", agent: perdure.Agent{SerialCalls: true}, classes: []string{"", "x", "", "y"}, peak: 1},
		{name: "TN11_serial_beats_the_cap", agent: perdure.Agent{SerialCalls: true, MaxParallelCalls: 4}, classes: make([]string, 4), peak: 1},
		{name: "TN11_a_negative_cap_is_the_default", agent: perdure.Agent{MaxParallelCalls: -1}, classes: make([]string, 40), peak: 32},
		{name: "TN11_at_most_32_of_a_step", classes: make([]string, 64), peak: 32},
		{name: "TN11_the_cap_passes_over_a_busy_class", agent: perdure.Agent{MaxParallelCalls: 2}, classes: []string{"x", "x", "", ""},
			peak: 2, starts: []perdure.CallID{"c0", "c2", "c1", "c3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := asking(t, c.agent)
			var calls []asked
			for i, class := range c.classes {
				next := call(perdure.CallID(fmt.Sprintf("c%d", i)))
				next.Concurrency = class
				calls = append(calls, next)
			}

			peak, starts := w.runAll(t, calls)

			if peak != c.peak {
				t.Errorf("peak: got %d, want %d", peak, c.peak)
			}
			want := c.starts
			for i := range calls {
				if len(c.starts) == 0 {
					want = append(want, calls[i].ID)
				}
			}
			if diff := cmp.Diff(starts, want); diff != "" {
				t.Errorf("order of the starts (-got +want):\n%s", diff)
			}
		})
	}
}

// runAll lets the model request calls and ends them one by one, in the order in which they started.
func (w *simulator) runAll(t *testing.T, calls []asked) (peak int, starts []perdure.CallID) {
	t.Helper()
	n := len(w.journal)
	w.settle(w.answer("", calls...)...)
	for range calls {
		running := w.runs()
		peak = max(peak, len(running))
		if len(running) == 0 {
			t.Fatalf("nothing runs, and the step is open: %+v", w.due)
		}
		w.settle(done(running[0].Call, `1`))
	}
	for _, e := range w.events[n:] {
		if f, ok := e.Fact.(perdure.ToolStarted); ok {
			starts = append(starts, f.CallID)
		}
	}
	if got := last[perdure.ActCompleted](t, w).SuccessCount; got != len(calls) {
		t.Errorf("successes: got %d, want %d", got, len(calls))
	}
	return peak, starts
}

// TestDecideCalls has the other rules of an act step.
func TestDecideCalls(t *testing.T) {
	t.Parallel()
	keepAll(t, []law{
		{"TN9_the_65th_call_is_not_executed", tooManyCalls},
		{"TN10_a_refusal_is_a_result_that_never_started", refusedCall},
		{"TN12_a_call_that_detaches_gives_its_class_back", detachedCall},
		{"TN14_equal_calls_are_two_calls", equalCalls},
		{"LG1_calls_that_start_together_are_claimed_together", claimedTogether},
		{"the_claim_carries_what_was_planned", claimCarriesThePlan},
	})
}

func tooManyCalls(t *testing.T) {
	w := asking(t, perdure.Agent{MaxParallelCalls: 100})
	var calls []asked
	for i := range perdure.MaxCallsPerStep + 2 {
		calls = append(calls, call(perdure.CallID(fmt.Sprintf("c%d", i))))
	}

	w.settle(w.answer("", calls...)...)

	if got := len(w.runs()); got != 64 {
		t.Errorf("running: got %d, want 64", got)
	}
	refused := last[perdure.ToolCompleted](t, w)
	want := perdure.Refused("c65", perdure.ErrorRejected, "not executed: more than 64 calls in one step")
	if diff := cmp.Diff(refused.Result, want); diff != "" {
		t.Errorf("result (-got +want):\n%s", diff)
	}
}

func refusedCall(t *testing.T) {
	w := asking(t, perdure.Agent{})
	bad := call("a")
	refusal := perdure.Refused("a", perdure.ErrorRejected, "Tool definition not found: work")
	bad.Refusal = &refusal
	n := len(w.journal)

	w.settle(w.answer("", bad, call("b"))...)

	if turn := w.session.Turn; turn.IsRunning("a") || !turn.IsRunning("b") || turn.IsRunning("c") {
		t.Errorf("running: got a %t, b %t, c %t; want b alone", turn.IsRunning("a"), turn.IsRunning("b"), turn.IsRunning("c"))
	}
	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "act.started", "tool.completed", "tool.started")
	if diff := cmp.Diff(last[perdure.ToolCompleted](t, w).Result, refusal); diff != "" {
		t.Errorf("result (-got +want):\n%s", diff)
	}
}

func detachedCall(t *testing.T) {
	w := asking(t, perdure.Agent{})
	first, second := call("a"), call("b")
	first.Concurrency, second.Concurrency = "x", "x"
	w.settle(w.answer("", first, second)...)
	task := w.newTask(perdure.TaskRunning)
	task.Origin, task.Call = perdure.OriginDetached, "a"

	w.settle(done(w.runs()[0].Call, `{"type":"background"}`), perdure.TaskCreated{Task: task})

	if runs := w.runs(); len(runs) != 1 || runs[0].Call.ID != "b" {
		t.Errorf("running: got %+v, want b", runs)
	}
}

func equalCalls(t *testing.T) {
	w := asking(t, perdure.Agent{})

	w.settle(w.answer("", call("a"), call("b"))...)

	if got := len(w.runs()); got != 2 {
		t.Errorf("running: got %d, want both", got)
	}
}

func claimedTogether(t *testing.T) {
	w := asking(t, perdure.Agent{})
	s := w.session.Clone()
	for i, fact := range w.answer("", call("a"), call("b"), call("c")) {
		if err := s.Apply(perdure.Event{Seq: w.session.Seq + int64(i) + 1, At: w.now, Session: sessionID, Fact: fact}); err != nil {
			t.Fatal(err)
		}
	}

	commands := s.Decide(w.momentOf(s))

	var claimed []perdure.CallID
	for _, command := range commands {
		if c, ok := command.(perdure.ClaimCall); ok {
			claimed = append(claimed, c.Call.ID)
		}
	}
	if !slices.Equal(claimed, []perdure.CallID{"a", "b", "c"}) || len(commands) != 3 {
		t.Errorf("commands: got %+v, want three claims", commands)
	}
}

func claimCarriesThePlan(t *testing.T) {
	w := asking(t, perdure.Agent{})
	c := call("a")
	c.DisplayName, c.Class, c.Fingerprint, c.Args = "Work", perdure.AtMostOnce, "sha256:11", `{"n":1}`

	w.settle(w.answer("", c)...)

	want := perdure.ToolStarted{CallID: "a", Name: "work", Lane: perdure.Foreground, Class: perdure.AtMostOnce, Fingerprint: "sha256:11", DisplayName: "Work"}
	if diff := cmp.Diff(last[perdure.ToolStarted](t, w), want); diff != "" {
		t.Errorf("tool.started (-got +want):\n%s", diff)
	}
	if run := w.runs()[0]; string(run.Call.Args) != `{"n":1}` || run.Call.Phase != perdure.CallExecuting || run.Call.StartedAt.IsZero() {
		t.Errorf("running: got %+v, want the model's arguments", run.Call)
	}
}
