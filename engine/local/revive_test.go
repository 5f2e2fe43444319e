package local_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestMessageLetsGoOn: a message to a session that a budget stopped resumes it in the same commit,
// once its period has started again, so that no wait is reported. Before that it waits.
func TestMessageLetsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := scripted.Parse("hello.yaml", []byte("steps: [{text: Hello., repeat: true}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tool.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		period, err := budget.ParsePeriod("every 24h")
		if err == nil {
			_, err = eng.Budgets().Set(t.Context(), budget.Budget{
				Subject: budget.Subject{Scope: budget.Session, ID: string(s.ID)}, Currency: "model_calls", Limit: 1_000_000, Period: period, Action: budget.Stop,
			}, "operator")
		}
		if err != nil {
			t.Fatal(err)
		}
		work := running(t, eng)
		for range 3 { // the bubble begins with a period, and spending in its first moment counts for the one before
			<-time.After(time.Minute)
			if _, err := eng.Send(t.Context(), s.ID, perdure.Text("hello")); err != nil {
				t.Fatal(err)
			}
			if err := eng.Sessions().WaitIdle(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		work()
		resumed := func(text string) bool {
			t.Helper()
			if _, err := eng.Send(t.Context(), s.ID, perdure.Text(text)); err != nil {
				t.Fatal(err)
			}
			events, err := eng.Events(t.Context(), s.ID, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(events, func(e perdure.Event) bool { _, is := e.Fact.(perdure.BudgetResumed); return is })
		}

		early := resumed("too early")
		held, err := eng.Sessions().Get(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(25 * time.Hour)
		late := resumed("again")
		free, err := eng.Sessions().Get(t.Context(), s.ID)

		if early || held.Hold == nil || held.Hold.Code != "budget_exhausted" {
			t.Errorf("within the period: resumed: %t, held by %+v", early, held.Hold)
		}
		if !late || err != nil || free.Hold != nil {
			t.Errorf("in the next one: resumed: %t, held by %+v, %v", late, free.Hold, err)
		}
	})
}

// running lets an engine work until the returned function is called.
func running(t *testing.T, eng *local.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
