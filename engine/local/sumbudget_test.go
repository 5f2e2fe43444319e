package local_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// watched is a model that signals a request for a summary.
type watched struct {
	model.Model
	summing func()
}

func (w watched) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	if len(req.Tools) == 0 && strings.HasPrefix(req.Messages[0].Text(), "user: ") {
		w.summing()
	}
	return w.Model.Stream(ctx, req)
}

// TestSummaryIsReserved: a request that summarizes a conversation for compaction is reserved before
// it is made, like every request (BU2), counts once, and leaves nothing reserved. Without remaining
// budget it is not made.
func TestSummaryIsReserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script, err := scripted.Parse("long", []byte(`
rules:
  - when: {last_contains: "user: begin", last_role: user}
    text: they spoke of a word
    usage: {input_tokens: 7, output_tokens: 3}
steps:
  - {text: "`+strings.Repeat("a word ", 300)+`", usage: {input_tokens: 100, output_tokens: 10}, repeat: true}
`))
		if err != nil {
			t.Fatal(err)
		}
		var eng *local.Engine
		var id perdure.BudgetID
		account := func() budget.Standing {
			all, err := eng.Budgets().List(t.Context(), engine.BudgetFilter{})
			if err != nil || len(all) != 1 {
				t.Fatalf("got %+v, %v", all, err)
			}
			return all[0]
		}
		summed := 0
		eng, err = local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Tools: tool.NewRegistry(), Model: watched{script, func() {
			summed++
			if account().Reserved == 0 {
				t.Error("a summary is asked for, and nothing is reserved")
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()
		s, err := eng.Sessions().Create(t.Context(), perdure.Agent{MaxContextTokens: 1200, Summarise: true})
		if err != nil {
			t.Fatal(err)
		}
		set, err := eng.Budgets().Set(t.Context(), budget.Budget{
			Subject: budget.Subject{Scope: budget.Session, ID: string(s.ID)}, Currency: budget.Tokens, Limit: budget.Whole(100_000),
		}, "ada")
		if err != nil {
			t.Fatal(err)
		}
		id = set.ID
		for _, text := range []string{"begin", "more", "and more", "the last"} {
			if _, err := eng.Send(t.Context(), s.ID, perdure.Text(text)); err != nil {
				t.Fatal(err)
			}
			if err := eng.Sessions().WaitIdle(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}

		got := account()
		if want := budget.Whole(int64(4*110 + 10*summed)); summed == 0 || got.Spent != want || got.Reserved != 0 || got.ID != id {
			t.Errorf("got %+v after %d summaries, want %s spent and nothing reserved", got, summed, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
