package generation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
)

// Limits of a summary: how much of the conversation the model reads, how long the summary may be,
// and how long to wait for it.
const (
	maxSummaryInput = 96 << 10
	summaryTokens   = 1000
	summaryTime     = 2 * time.Minute
)

const summaryPrompt = "You are given the first part of a conversation between a user and an agent that calls tools. " +
	"Summarise in at most 300 words what the agent needs in order to continue: what was asked, decided and found out, " +
	"the names, paths and numbers that matter, and what remains to be done. Write nothing else."

// Summarise carries out the root's SummariseContext: it asks the model for a summary of the
// messages that leave the context. If that fails, they leave it without a summary. The second
// result is false if the engine is stopping.
func (g *Generator) Summarise(ctx context.Context, s *perdure.Session, c perdure.SummariseContext) (core.Outcome, bool) {
	asking, stop := context.WithTimeout(g.core.Telemetry.InTurn(ctx, s), summaryTime)
	defer stop()
	req := model.Request{
		Session: s.ID, System: summaryPrompt, MaxTokens: summaryTokens, Attempt: 1,
		Messages: []perdure.Message{perdure.Text(renderedTranscript(s.Omitted(c)))},
	}
	if s.Turn != nil {
		req.Model = s.Turn.Model
	}
	work, refused, err := g.reserveSummary(ctx, s, req.Model, len(req.System)+len(req.Messages[0].Text()))
	if err != nil || refused != nil {
		g.core.Log.Warn("dropped messages not summarised", "session", s.ID, "turn", c.Turn, "refused", refused,
			"error", err)
		return core.Outcome{Events: c.Events(s, "")}, ctx.Err() == nil
	}
	start := time.Now()
	var answer model.Answer
	err = g.core.Guarded("summarise", func() (err error) {
		if answer, err = model.Collect(g.core.Model.Stream(asking, req), nil); err != nil {
			return err
		}
		if err := g.checkGuardrails(answer.Message.Text()); err != nil {
			return err
		}
		return g.secretsUnreadable(s.ID)
	})
	if ctx.Err() != nil {
		return core.Outcome{}, false
	}
	answer = g.redacted(s, answer)
	summary := answer.Message.Text()
	bill := perdure.Generation{Model: answer.Model, Usage: answer.Usage, DurationMS: time.Since(start).Milliseconds(),
		FinishReason: string(answer.Finish)}
	if err != nil {
		summary, bill.Error = "", perdure.CodeProcessing
		g.core.Log.Warn("dropped messages not summarised", "session", s.ID, "turn", c.Turn, "error", err)
	}
	billed := perdure.Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: bill}
	return core.Outcome{Events: append([]perdure.Event{billed}, c.Events(s, summary)...), Reservation: work}, true
}

// renderedTranscript renders messages as text. If they exceed the limit, the last ones are
// rendered.
func renderedTranscript(messages []perdure.Message) string {
	var lines []string
	size := 0
	for _, m := range slices.Backward(messages) {
		line := string(m.Role) + ": " + m.Text()
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				line += "\n[calls " + p.Call.Name + " " + string(p.Call.Arguments) + "]"
			case p.Result != nil:
				line += string(p.Result.Result)
			}
		}
		if size += len(line) + 1; size > maxSummaryInput {
			break
		}
		lines = append(lines, strings.ToValidUTF8(line, "?"))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// reserveSummary reserves the cost of the model call that summarises the dropped part of a
// conversation. It returns the name of the reservation, which ends with the turn. If a budget
// refuses, the model must not be called.
func (g *Generator) reserveSummary(ctx context.Context, s *perdure.Session, asked string,
	bytes int) (work string, refused *budget.Refusal, err error) {
	work = budget.SummaryWork(core.NewID[perdure.EventID]())
	err = g.core.Work.InTx(ctx, func(tx store.Tx) error {
		refused = nil
		some, err := tx.Budgets().Any()
		if err != nil || !some {
			return err
		}
		if _, err := tx.Sessions().Get(s.ID); err != nil {
			return err
		}
		refused, err = g.core.Meter.Reserve(tx, meter.Request{
			Owner: meter.OwnerOf(s), Work: work, Step: true,
			Uses: meter.WorkUsage{Model: g.core.Meter.ModelOf(asked),
				Usage:    perdure.Usage{InputTokens: int64(bytes / bytesPerToken), OutputTokens: summaryTokens},
				Duration: assumedModelTime},
			Waives: func(id perdure.BudgetID) bool { return s.Waives(id, tx.Now()) },
		})
		return err
	})
	return work, refused, err
}
