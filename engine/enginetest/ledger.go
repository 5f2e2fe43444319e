package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// ledgerLaws cover the ledger rows of calls (LG1 to LG18).
func ledgerLaws() []law {
	return []law{
		{"EveryEndSettles", everyEndSettles},
		{"CallsPerStepCapped", callsPerStep},
	}
}

// everyEndSettles ends calls in every possible way, including a crash: each has one result, and its
// row has the same.
func everyEndSettles(t *testing.T, open Harness) { // LG7, LG18
	s := begin(t, open, Setup{Script: `
steps:
  - calls:
      - {name: echo, args: {text: a}}
      - {name: charge, args: {text: a}}
      - {name: fail, args: {}}
      - {name: break, args: {}}
      - {name: panic, args: {}}
      - {name: hold_silent, args: {text: a}}
  - calls: [{name: hold, args: {text: a}}, {name: hold_note, args: {text: a}}]
  - calls: [{name: hold_charge, args: {text: a}}]
  - {text: done, repeat: true}
`})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.Entered(t, "hold_note", 1)
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	s.rest()
	s.say("go on")
	s.Entered(t, "hold_charge", 1)
	s.crash()
	s.rest()

	for name, want := range map[string]perdure.CompletionStatus{
		"echo": perdure.StatusSuccess, "charge": perdure.StatusSuccess, "fail": perdure.StatusError,
		"break": perdure.StatusError, "panic": perdure.StatusError, "hold_silent": perdure.StatusTimeout,
		"hold": perdure.StatusInterrupted, "hold_note": perdure.StatusInterrupted,
		"hold_charge": perdure.StatusUnknown,
	} {
		if got := s.onlyResult(name); got.Status != want {
			t.Errorf("%s ended as %s, want %s", name, got.Status, want)
		}
	}
	s.ledgerAgrees(9)
}

// ledgerAgrees compares the rows of the session with the results in its journal: n of each, and
// none running.
func (s *scene) ledgerAgrees(n int) {
	s.t.Helper()
	rows, err := s.eng.Calls().List(s.ctx, s.id)
	told := facts[perdure.ToolCompleted](s)
	if err != nil || len(rows) != n || len(told) != n {
		s.t.Fatalf("%d rows, %v, and %d results, want %d; journal:\n%s", len(rows), err, len(told), n, s.journalText())
	}
	byID := map[perdure.CallID]perdure.ToolCompleted{}
	for _, f := range told {
		byID[f.CallID] = f
	}
	for _, row := range rows {
		f := byID[row.Key.Call]
		want := perdure.CallSettled
		if f.Status == perdure.StatusUnknown {
			want = perdure.CallUnknown
		}
		if row.State != want || row.Result == nil || row.SettledAt.IsZero() {
			s.t.Errorf("%s reported %s, and its row is %+v", row.Tool, f.Status, row)
			continue
		}
		if row.Result.Status() != f.Status || row.Result.Error != f.Result.Error ||
			string(row.Result.Result) != string(f.Result.Result) {
			s.t.Errorf("%s reported %+v, and its row has %+v", row.Tool, f.Result, *row.Result)
		}
	}
}

// callsPerStep requests more calls than a step may have: the surplus calls are refused, and neither
// claimed nor run.
func callsPerStep(t *testing.T, open Harness) { // TN9
	const most, over = 64, 2
	var calls strings.Builder
	for i := range most + over {
		fmt.Fprintf(&calls, "      - {name: note, args: {text: n%d}}\n", i)
	}
	s := begin(t, open, Setup{Script: "steps:\n  - calls:\n" + calls.String() + "  - {text: done, repeat: true}\n"})
	s.say("go")
	s.rest()

	rows, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil || len(rows) != most || len(s.Effects("note")) != most {
		t.Errorf("%d rows, %v, %d effects, want %d", len(rows), err, len(s.Effects("note")), most)
	}
	refused := 0
	for _, f := range facts[perdure.ToolCompleted](s) {
		if f.Result.Error == perdure.TextTooMany && f.Result.NeverStarted {
			refused++
		}
	}
	if refused != over || s.final() != "done" {
		t.Errorf("%d were refused, want %d; final %q", refused, over, s.final())
	}
}
