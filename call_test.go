package perdure_test

import (
	"fmt"
	"testing"

	"github.com/perdure/perdure"
)

// TestJudgeClaim is the table of LG2, with LG5 and LG14.
func TestJudgeClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state perdure.CallState // empty: no row
		same  bool              // fingerprint
		mine  bool              // token
		live  bool              // its worker
		want  perdure.ClaimOutcome
	}{
		{"", false, false, false, perdure.Claimed},
		{perdure.CallSettled, true, false, false, perdure.AlreadySettled},
		{perdure.CallSettled, true, true, true, perdure.AlreadySettled},
		{perdure.CallUnknown, true, false, false, perdure.AlreadyUnknown},
		{perdure.CallUnknown, true, true, true, perdure.AlreadyUnknown},
		{perdure.CallRunning, true, true, true, perdure.Claimed},
		{perdure.CallRunning, true, true, false, perdure.Claimed},
		{perdure.CallRunning, true, false, true, perdure.ClaimConflict},
		{perdure.CallRunning, true, false, false, perdure.ClaimAbandoned},
		{perdure.CallSettled, false, false, true, perdure.DeterminismViolation},
		{perdure.CallRunning, false, false, true, perdure.DeterminismViolation},
		{perdure.CallRunning, false, true, false, perdure.DeterminismViolation},
		{perdure.CallUnknown, false, false, false, perdure.DeterminismViolation},
	} {
		t.Run(fmt.Sprintf("LG2_%s_same_%t_mine_%t_live_%t", c.state, c.same, c.mine, c.live), func(t *testing.T) {
			t.Parallel()
			wanted := perdure.Call{Fingerprint: "sha256:11", Token: "mine"}
			var found *perdure.Call
			if c.state != "" {
				found = &perdure.Call{State: c.state, Fingerprint: "sha256:22", Token: "theirs"}
			}
			if c.same {
				found.Fingerprint = wanted.Fingerprint
			}
			if c.mine {
				found.Token = wanted.Token
			}

			if got := perdure.DecideClaim(found, wanted, c.live); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// takeOverRow is a row of RC13 or LG8: when it holds, and what is done.
type takeOverRow struct {
	id    string
	holds func(perdure.OrphanedCall) bool
	do    perdure.TakeOver
}

// takeOverRows are the rows in their order; the first that holds decides.
func takeOverRows() []takeOverRow {
	spent := func(f perdure.OrphanedCall) bool { return f.MaxExecutions > 0 && f.Executions >= f.MaxExecutions }
	again := func(f perdure.OrphanedCall) bool { return f.Class == perdure.Pure || f.Class == perdure.Idempotent }
	return []takeOverRow{
		{"RC23_remains_at_another_home", func(f perdure.OrphanedCall) bool { return f.Remains == perdure.RemainsElsewhere }, perdure.TakeOverWait},
		{"RC13_2_stop_requested", func(f perdure.OrphanedCall) bool { return f.StopRequested }, perdure.TakeOverStop},
		{"RC13_3_alive_past_its_deadline", func(f perdure.OrphanedCall) bool { return f.Remains == perdure.RemainsAlive && f.PastDeadline }, perdure.TakeOverTimeout},
		{"RC13_5_alive", func(f perdure.OrphanedCall) bool { return f.Remains == perdure.RemainsAlive }, perdure.TakeOverAdopt},
		{"RC13_6_exit_record", func(f perdure.OrphanedCall) bool { return f.Remains == perdure.RemainsEnded }, perdure.TakeOverAdopt},
		{"RC13_6a_ticket_revoked", func(f perdure.OrphanedCall) bool { return f.Remains == perdure.RemainsUnstarted }, perdure.TakeOverFirstRun},
		{"RC13_7_reattach", func(f perdure.OrphanedCall) bool { return f.Reattach }, perdure.TakeOverReattach},
		{"RC13_8_executions_left", func(f perdure.OrphanedCall) bool { return again(f) && !spent(f) }, perdure.TakeOverRunAgain},
		{"RC13_11_executions_used_up", again, perdure.TakeOverGiveUp},
		{"RC13_9_reconcile", func(f perdure.OrphanedCall) bool { return f.Reconcile }, perdure.TakeOverReconcile},
		{"RC13_10_at_most_once", func(perdure.OrphanedCall) bool { return true }, perdure.TakeOverUnknown},
	}
}

// TestFoundJudge asks for every finding there is, and wants the first row that holds.
func TestFoundJudge(t *testing.T) {
	t.Parallel()
	decided := map[string]int{}
	for _, f := range everyFinding() {
		for _, row := range takeOverRows() {
			if !row.holds(f) {
				continue
			}
			decided[row.id]++
			if got := f.TakeOver(); got != row.do {
				t.Errorf("%s for %+v: got %s, want %s", row.id, f, got, row.do)
			}
			break
		}
	}
	for _, row := range takeOverRows() {
		if decided[row.id] == 0 {
			t.Errorf("%s never decided", row.id)
		}
	}
}

func everyFinding() []perdure.OrphanedCall {
	both := []bool{false, true}
	all := []perdure.OrphanedCall{{}}
	widen := func(vary func(perdure.OrphanedCall) []perdure.OrphanedCall) {
		var wider []perdure.OrphanedCall
		for _, f := range all {
			wider = append(wider, vary(f)...)
		}
		all = wider
	}
	for _, set := range []func(*perdure.OrphanedCall, bool){
		func(f *perdure.OrphanedCall, b bool) { f.StopRequested = b },
		func(f *perdure.OrphanedCall, b bool) { f.PastDeadline = b },
		func(f *perdure.OrphanedCall, b bool) { f.Reattach = b },
		func(f *perdure.OrphanedCall, b bool) { f.Reconcile = b },
	} {
		widen(func(f perdure.OrphanedCall) (fs []perdure.OrphanedCall) {
			for _, b := range both {
				set(&f, b)
				fs = append(fs, f)
			}
			return fs
		})
	}
	widen(func(f perdure.OrphanedCall) (fs []perdure.OrphanedCall) {
		for _, f.Remains = range []perdure.ExecutionRemains{perdure.RemainsNone, perdure.RemainsUnstarted, perdure.RemainsAlive, perdure.RemainsEnded, perdure.RemainsElsewhere, perdure.RemainsUnseen} {
			fs = append(fs, f)
		}
		return fs
	})
	widen(func(f perdure.OrphanedCall) (fs []perdure.OrphanedCall) {
		for _, f.Class = range []perdure.EffectClass{"", perdure.Pure, perdure.Idempotent, perdure.AtMostOnce} {
			fs = append(fs, f)
		}
		return fs
	})
	widen(func(f perdure.OrphanedCall) (fs []perdure.OrphanedCall) {
		for _, runs := range [][2]int{{2, 3}, {3, 3}, {4, 3}, {9, 0}} {
			f.Executions, f.MaxExecutions = runs[0], runs[1]
			fs = append(fs, f)
		}
		return fs
	})
	return all
}

func TestCallKey(t *testing.T) {
	t.Parallel()
	key := perdure.CallKey{Session: "session_1", Call: "call-1"}

	if got, want := key.String(), "session_1/call-1"; got != want {
		t.Errorf("key: got %s, want %s", got, want)
	}
	if got, want := key.IdempotencyKey(), "session_1:call-1"; got != want {
		t.Errorf("idempotency key (LG10): got %s, want %s", got, want)
	}
	task := perdure.Task{Session: "session_1", Run: "bg_1"}
	if got, want := task.LedgerKey(), (perdure.CallKey{Session: "session_1", Call: "bg_1"}); got != want {
		t.Errorf("a run's key: got %s, want %s", got, want)
	}
	if got, want := task.ArtifactDir(), "/.background/bg_1"; got != want {
		t.Errorf("a run's folder (BG11): got %s, want %s", got, want)
	}
}

func TestEffectClass(t *testing.T) {
	t.Parallel()
	classes := []perdure.EffectClass{perdure.Pure, perdure.Idempotent, perdure.AtMostOnce, ""}
	order := map[perdure.EffectClass]int{perdure.Pure: 0, perdure.Idempotent: 1, perdure.AtMostOnce: 2, "": 2, "bogus": 2}
	for _, a := range append(classes, "bogus") {
		if got, want := a.Valid(), a != "" && a != "bogus"; got != want {
			t.Errorf("%q is valid: got %t, want %t", a, got, want)
		}
		if got, want := a.Repeatable(), order[a] < 2; got != want {
			t.Errorf("%q is repeatable: got %t, want %t", a, got, want)
		}
		for _, b := range append(classes, "bogus") {
			if got, want := a.Stricter(b), classes[max(order[a], order[b])]; got != want {
				t.Errorf("the stricter of %q and %q (BG10): got %q, want %q", a, b, got, want)
			}
		}
	}
}

// TestAnswerOutcome has the three words of LG11.
func TestAnswerOutcome(t *testing.T) {
	t.Parallel()
	for answer, want := range map[perdure.ResolveAnswer]string{
		perdure.ResolveHappened: "succeeded", perdure.ResolveDidNotHappen: "failed", perdure.ResolveRunAgain: "rerun", "": "", "perhaps": "", "succeeded": "",
	} {
		if got := answer.Outcome(); got != want {
			t.Errorf("outcome of %q: got %q, want %q", answer, got, want)
		}
	}
}
