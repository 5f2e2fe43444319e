package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// payment adds a payment of a session whose outcome is unknown, and returns its path.
func (r *rig) payment(session string) string {
	r.t.Helper()
	r.payments++
	id := perdure.SessionID(strings.TrimPrefix(session, "/v1/sessions/"))
	p := store.Payment{Hash: fmt.Sprintf("%064d", r.payments), Attempt: 1, Token: "token", Session: id, Turn: "turn_1", Call: "call_1", Tool: "buy",
		Capability: "news", Host: "news.example.com", Operation: "buy", Currency: "usd", Micros: 250_000}
	err := r.store.InTx(r.t.Context(), func(tx store.Tx) error {
		row, err := tx.Sessions().Get(id)
		if err != nil {
			return err
		}
		p.Org = row.Org
		if _, err = tx.Payments().Add(p, time.Hour); err != nil {
			return err
		}
		_, err = tx.Payments().Settle(store.PaymentEnd{Hash: p.Hash, Attempt: 1, Token: p.Token, State: store.PaymentUnknown, Note: "no answer"})
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return "/v1/payments/pay_" + p.Hash + "_1"
}

func (r *rig) unknownPayment() string {
	r.t.Helper()
	return r.payment(r.session())
}

// listedPayments is a list as it stands on the wire.
type listedPayments struct {
	Items []engine.Payment `json:"items"`
	Next  string           `json:"next"`
}

// TestPayments: an unknown payment is listed, shown, and resolved once, with an entry in the audit
// log.
func TestPayments(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	session := r.session()
	path, other := r.payment(session), r.unknownPayment()

	all := want[listedPayments](r, 200, get("/v1/payments?limit=1"))
	if len(all.Items) != 1 || "/v1/payments/"+all.Items[0].ID != other || all.Next == "" {
		t.Fatalf("first page %+v", all)
	}
	all = want[listedPayments](r, 200, get("/v1/payments?limit=1&cursor="+all.Next))
	if len(all.Items) != 1 || "/v1/payments/"+all.Items[0].ID != path || all.Next != "" {
		t.Errorf("second page %+v", all)
	}
	if own := want[listedPayments](r, 200, get("/v1/payments?state=unknown&session="+strings.TrimPrefix(session, "/v1/sessions/"))); len(own.Items) != 1 {
		t.Errorf("of the session: %+v", own)
	}
	if shown := want[engine.Payment](r, 200, get(path)); shown.State != engine.PaymentUnknown || shown.Amount != "0.25" || shown.Note != "no answer" {
		t.Errorf("shown %+v", shown)
	}
	for body, status := range map[string]int{
		`{"outcome":"run_again"}`: 422, `{"outcome":"did_not_happen","receipt":"r"}`: 400, `{}`: 422,
	} {
		if got := r.do(post(path+"/resolve", body)); got.status/100 != 4 {
			t.Errorf("%s: got %d %s, want %d", body, got.status, got.body, status)
		}
	}
	resolved := want[engine.Payment](r, 200, post(path+"/resolve", `{"outcome":"happened","receipt":"in the list","note":"checked"}`))
	if resolved.State != engine.PaymentPaid || resolved.Receipt != "in the list" || resolved.ResolvedBy == "" {
		t.Errorf("resolved %+v", resolved)
	}
	if again := r.do(post(path+"/resolve", `{"outcome":"did_not_happen"}`)); again.status != 409 {
		t.Errorf("resolved again: %d %s", again.status, again.body)
	}
	if log := r.do(get("/v1/audit?action=payment.resolved")); !strings.Contains(string(log.body), strings.TrimPrefix(path, "/v1/payments/")) {
		t.Errorf("the audit log has %s", log.body)
	}
	for _, id := range []string{"pay_x_1", "pay_", "x", strings.TrimPrefix(other, "/v1/payments/") + "1"} {
		if got := r.do(get("/v1/payments/" + id)); got.status != 404 {
			t.Errorf("%s: got %d %s, want 404", id, got.status, got.body)
		}
	}
}
