package engine_test

import (
	"slices"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// TestHoldOf covers every state of a session in which a message waits, and the reason.
func TestHoldOf(t *testing.T) {
	t.Parallel()
	acting := func(phases ...perdure.CallPhase) *perdure.Session {
		turn := &perdure.Turn{Phase: perdure.PhaseActing}
		for i, phase := range phases {
			turn.Calls = append(turn.Calls, perdure.TurnCall{PlannedCall: perdure.PlannedCall{ID: perdure.CallID("call_" + string(phase)), Name: "tool"}, Phase: phase, Approval: perdure.ApprovalID([]string{"appr_1", "appr_2"}[i])})
		}
		return &perdure.Session{Turn: turn}
	}
	notice := perdure.BudgetNotice{BudgetID: "bdgt_1", Limit: "1", Why: "it is used up."}
	for name, c := range map[string]struct {
		session *perdure.Session
		code    engine.HoldCode // empty: nothing waits
		detail  string
	}{
		"at rest":                       {session: &perdure.Session{}},
		"a model is asked":              {session: &perdure.Session{Turn: &perdure.Turn{Phase: perdure.PhaseReasoning}}},
		"a person paused it":            {session: &perdure.Session{Paused: &perdure.Pause{By: "kim", Reason: "wait"}}, code: engine.HeldByPerson, detail: "it is paused by kim: wait"},
		"a person and a budget":         {session: &perdure.Session{Paused: &perdure.Pause{By: "kim"}, Halt: &perdure.Halt{BudgetNotice: notice}}, code: engine.HeldByPerson, detail: "it is paused by kim"},
		"a budget":                      {session: &perdure.Session{Halt: &perdure.Halt{BudgetNotice: notice}}, code: engine.HeldByBudget, detail: "it is used up"},
		"a budget that a person lifts":  {session: &perdure.Session{Halt: &perdure.Halt{BudgetNotice: notice, Soft: true}}, code: engine.HeldBySoftBudget, detail: "it is used up"},
		"a budget, and the turn ends":   {session: &perdure.Session{Halt: &perdure.Halt{BudgetNotice: notice}, Turn: &perdure.Turn{Phase: perdure.PhaseReady}}},
		"a call asks":                   {session: acting(perdure.CallAwaitingApproval, perdure.CallDone), code: engine.HeldByApproval, detail: "a person must approve or deny tool"},
		"a call asks, and another runs": {session: acting(perdure.CallAwaitingApproval, perdure.CallExecuting)},
		"the client is to answer":       {session: acting(perdure.CallAwaitingClient), code: engine.HeldByClient, detail: "the client must answer tool"},
		"all calls are done":            {session: acting(perdure.CallDone)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := engine.HoldOf(c.session)

			if got == nil {
				if c.code != "" {
					t.Errorf("nothing waits, want %s", c.code)
				}
				return
			}
			if got.Code != c.code || got.Detail != c.detail {
				t.Errorf("got %s: %q, want %s: %q", got.Code, got.Detail, c.code, c.detail)
			}
			if byBudget := got.Code == engine.HeldByBudget || got.Code == engine.HeldBySoftBudget; byBudget != (got.Budget != nil) {
				t.Errorf("the budget is %+v", got.Budget)
			}
			if got.Code == engine.HeldByApproval && !slices.Equal(got.Approvals, []perdure.ApprovalID{"appr_1"}) {
				t.Errorf("the approvals are %v", got.Approvals)
			}
		})
	}
}
