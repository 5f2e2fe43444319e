package local_test

import (
	"testing"

	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestS26WhoDidWhat: an administrative action is in the audit log of its org, in the commit of the
// action, without secrets.
func TestS26WhoDidWhat(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	script, err := scripted.Parse("none", []byte("steps:\n  - text: one\n"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: script, Tools: tool.NewRegistry(plainTool("echo"))})
	if err != nil {
		t.Fatal(err)
	}
	ctx := store.Acting(t.Context(), "token_1 ada")

	made, err := eng.Tokens().Create(ctx, engine.TokenRequest{Name: "reports", Org: "acme", By: "token_1 ada"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // repeating it records nothing new
		if _, err := eng.Tokens().Revoke(ctx, made.ID, "token_1 ada"); err != nil {
			t.Fatal(err)
		}
	}
	set, err := eng.Budgets().Set(ctx, budget.Budget{Subject: budget.Subject{Scope: budget.Org, ID: "acme"}, Currency: budget.Tokens, Limit: budget.Whole(5)}, "token_1 ada")
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Budgets().Remove(ctx, set.ID); err != nil {
		t.Fatal(err)
	}

	var found []store.AuditEntry
	err = st.View(ctx, func(r store.Reader) error {
		_, err := store.CheckAudit(r.Audit(), func(e store.AuditEntry) { found = append(found, e) }, t.Errorf)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{{"token.created", string(made.ID)}, {"token.revoked", string(made.ID)}, {"budget.set", string(set.ID)}, {"budget.removed", string(set.ID)}}
	if len(found) != len(want) {
		t.Fatalf("got %d entries, want %d: %v", len(found), len(want), found)
	}
	for i, e := range found {
		if e.Org != "acme" || e.Actor != "token_1 ada" || e.Action != want[i][0] || e.Subject != want[i][1] {
			t.Errorf("entry %d: got %+v, want %q", i+1, e, want[i])
		}
	}
}
