package payment_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// asked is an approver that allows everything, and the questions that it was asked.
type asked struct {
	mu        sync.Mutex
	questions []payment.Question // guarded by mu
}

func (a *asked) Approve(_ context.Context, q payment.Question) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.questions = append(a.questions, q)
	return nil
}

// TestApproverIsAskedLast: the approver is asked about payments that can be made, for the org of
// the session, and not about those that a cap, a missing approval or an earlier payment refuses.
func TestApproverIsAskedLast(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		approver := &asked{}
		w.asks = approver
		w.policy.Caps["usd"] = payment.Caps{PerRequest: "5", PerTurn: "2", PerDay: "10", ApproveAbove: "1"}
		a := w.authority(w)
		other := perdure.FormatID[perdure.SessionID]([16]byte{15: 7})
		w.write(func(tx store.Tx) error {
			return tx.Sessions().Create(store.Session{ID: other, Root: other, Org: "acme", Status: perdure.SessionStarted, CreatedAt: time.Now()})
		})
		call := w.call(w.session, "turn_1", "call_1")
		for _, step := range []struct {
			name string
			call tool.Call
			what tool.PaymentRequest
			code string
			org  string // of the question; empty: it is not asked
		}{
			{"first", call, order("1", "a"), "", "own"},
			{"paid before", call, order("1", "a"), tool.PaymentReplayed, ""},
			{"second", call, order("1", "b"), "", "own"},
			{"over the turn", call, order("0.5", "c"), tool.PaymentOverTurn, ""},
			{"not approved", w.call(w.session, "turn_2", "call_2"), order("1.5", "d"), tool.PaymentNeedsApproval, ""},
			{"another org", w.call(other, "turn_3", "call_3"), order("1", "e"), "", "acme"},
		} {
			approver.questions = nil
			_, err := w.pay(a, step.call, step.what)
			if codeOf(err) != step.code || step.code == "" && err != nil {
				w.Errorf("%s: got %v, want %q", step.name, err, step.code)
			}
			got := ""
			for _, q := range approver.questions {
				got += q.Org
			}
			if got != step.org {
				w.Errorf("%s: asked for %q, want %q", step.name, got, step.org)
			}
		}
	})
}
