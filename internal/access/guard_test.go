package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/subagent"
)

const script = `
rules:
  - when: {user_contains: piece}
    text: done
  - when: {user_contains: go, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: one, task: piece one}}]
steps: [{text: hello, repeat: true}]
`

// newGuard is a guarded engine that runs.
func newGuard(t *testing.T) (*access.Guard, *memory.Store) {
	t.Helper()
	eng, st := newEngine(t)
	return access.NewGuard(eng, access.StoreOwners(st), access.MachineAccess{}, nil), st
}

// newEngine is an engine that runs.
func newEngine(t *testing.T) (*local.Engine, *memory.Store) {
	t.Helper()
	m, err := scripted.Parse("guard", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	st := memory.New(memory.Config{})
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tool.NewRegistry(subagent.Tools()...), Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; st.Close() })
	return eng, st
}

// as is a context of a user of an org.
func as(t *testing.T, org, user string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return access.WithPrincipal(ctx, access.Principal{ID: "token_of_" + org, Org: org, User: user, Scopes: access.All()})
}

// TestOwnerIsInherited: subagents and forks have the owner of their session, and an imported
// session that of the importer.
func TestOwnerIsInherited(t *testing.T) {
	t.Parallel()
	g, st := newGuard(t)
	ada, eve := as(t, "acme", "ada"), as(t, "evil", "eve")
	s := must1(g.Sessions().Create(ada, perdure.Agent{Name: "a"}))
	if _, err := g.Send(ada, s.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	if err := g.Sessions().WaitIdle(ada, s.ID); err != nil {
		t.Fatal(err)
	}
	fork := must1(g.Sessions().Fork(as(t, "acme", "bob"), s.ID, engine.Fork{}))
	all := must1(g.Sessions().List(ada, 0))
	if len(all) != 3 || fork.User != "ada" {
		t.Errorf("got %+v, fork of %q", all, fork.User)
	}
	for _, one := range all {
		if one.Org != "acme" || one.User != "ada" {
			t.Errorf("%s is of %q in %q", one.ID, one.User, one.Org)
		}
	}
	if theirs := must1(g.Sessions().List(eve, 0)); len(theirs) != 0 {
		t.Errorf("another org sees %+v", theirs)
	}
	var file bytes.Buffer
	if err := g.Sessions().Export(ada, s.ID, &file); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(file.Bytes(), []byte("acme")) {
		t.Error("the file says whose it was")
	}
	if err := g.Sessions().Delete(ada, s.ID); err != nil {
		t.Fatal(err)
	}
	imported := must1(g.Sessions().Import(eve, &file, engine.Import{}))
	rows := map[string]int{}
	err := st.View(t.Context(), func(r store.Reader) error {
		found, err := r.Sessions().List(store.SessionFilter{})
		for _, row := range found {
			rows[row.Org+" "+row.User]++
		}
		return err
	})
	if err != nil || imported.Org != "evil" || rows["evil eve"] != 2 || rows["acme ada"] != 1 {
		t.Errorf("got %v, %v", rows, err)
	}
	if _, err := g.Sessions().Get(ada, s.ID); !errors.Is(err, perdure.NotFound) {
		t.Errorf("the former owner: %v", err)
	}
}

// TestFollowEndsWithSession: a follower of a removed session sees nothing of what another org
// imports under its id.
func TestFollowEndsWithSession(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	ada, eve := as(t, "acme", "ada"), as(t, "evil", "eve")
	s := must1(g.Sessions().Create(ada, perdure.Agent{Name: "a"}))
	var file bytes.Buffer
	if err := g.Sessions().Export(ada, s.ID, &file); err != nil {
		t.Fatal(err)
	}
	follows, ended := make(chan struct{}, 1), make(chan error, 1) // one signal, and one result
	go func() {
		ended <- g.Follow(ada, s.ID, 0, func(f engine.Frame) error {
			if f.Event != nil && f.Event.Seq == s.LastSeq {
				follows <- struct{}{}
			}
			if f.Event != nil && f.Event.Seq > s.LastSeq {
				return fmt.Errorf("it shows %s of another org", f.Event.Type())
			}
			return nil
		})
	}()
	<-follows
	if err := g.Sessions().Delete(ada, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Sessions().Import(eve, &file, engine.Import{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Send(eve, s.ID, perdure.Text("ours")); err != nil {
		t.Fatal(err)
	}

	if err := <-ended; !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestBudgetsOfOrgs: budgets of users and agents belong to one org, even if another org has the
// same names.
func TestBudgetsOfOrgs(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	ada, other := as(t, "acme", "ada"), as(t, "evil", "ada")
	cap0 := func(ctx context.Context, s budget.Subject) budget.Standing {
		t.Helper()
		return must1(g.Budgets().Set(ctx, budget.Budget{Subject: s, Currency: budget.ModelCalls, Limit: 0, Action: budget.Stop}, "test"))
	}
	for _, subject := range []budget.Subject{{Scope: budget.User, ID: "ada"}, {Scope: budget.Agent, ID: "a"}, {Scope: budget.Org}} {
		set := cap0(ada, subject)
		if set.Subject.ID == "" || set.Scope == budget.User && set.Subject.ID != "ada" {
			t.Errorf("set for %+v", set.Subject)
		}
		for ctx, want := range map[context.Context]int{ada: 1, other: 0} {
			s := must1(g.Sessions().Create(ctx, perdure.Agent{Name: "a"}))
			report := must1(g.Budgets().Check(ctx, s.ID))
			if len(report.Budgets) != want {
				t.Errorf("%s: %d budgets count, want %d", subject.Scope, len(report.Budgets), want)
			}
			if want == 1 && report.Budgets[0].Subject != set.Subject {
				t.Errorf("%s: reported as %+v, set as %+v", subject.Scope, report.Budgets[0].Subject, set.Subject)
			}
			if list := must1(g.Budgets().List(ctx, engine.BudgetFilter{})); len(list) != want {
				t.Errorf("%s: %d are listed, want %d", subject.Scope, len(list), want)
			}
		}
		if err := g.Budgets().Remove(other, set.ID); !errors.Is(err, perdure.NotFound) {
			t.Errorf("removed by another org: %v", err)
		}
		if err := g.Budgets().Remove(ada, set.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := g.Budgets().Set(other, budget.Budget{Subject: budget.Subject{Scope: budget.Org, ID: "acme"}, Currency: budget.Calls}, "test"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a cap for another org: %v", err)
	}
}

// TestLocalOperator: without a principal nothing is restricted.
func TestLocalOperator(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	s := must1(g.Sessions().Create(as(t, "acme", "ada"), perdure.Agent{}))
	own := must1(g.Sessions().Create(t.Context(), perdure.Agent{}))
	if got := must1(g.Sessions().Get(t.Context(), s.ID)); got.Org != "acme" || own.Org != budget.DefaultOrg || len(must1(g.Sessions().List(t.Context(), 0))) != 2 {
		t.Errorf("got %+v and %+v", got, own)
	}
}
