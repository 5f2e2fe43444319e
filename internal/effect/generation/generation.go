// Package generation asks the model: it builds the request, streams the response past guardrails
// and secrets, stores checkpoints of its text, and turns the response into an outcome.
//
// It may import the root, agent, budget, model, store and tool, of internal: meter and redact, and
// of internal/effect: core, secrets and toolset.
//
// The one thing to know: text is shown and stored only after guardrails and secrets were checked.
// The message, its cost and the plan of its calls are one outcome, so no call exists before its
// message does.
package generation

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/model"
)

// Planner decides how the calls of a response run.
type Planner interface {
	// Plan plans the calls of a response, and refuses those that must not start.
	Plan(ctx context.Context, s *perdure.Session, calls []perdure.ToolCall) perdure.ActStarted
}

// Generator asks the model.
type Generator struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
	planner Planner
}

// New returns a generator whose calls are planned by planner.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets, planner Planner) *Generator {
	return &Generator{core: c, toolset: tools, secrets: sec, planner: planner}
}

// deltaBatch is how long text is collected before live watchers get it.
const deltaBatch = 100 * time.Millisecond

// DeltaFrame is the type of a frame that holds an OutputDelta.
const DeltaFrame = "output.message.delta"

// OutputDelta is the frame of a streaming response: only the new text. The full text is the first
// Offset bytes of the text so far, followed by Delta. Without a Delta the frame says that the store
// has Offset bytes of the text; an engine does not pass such a frame on.
type OutputDelta struct {
	MessageID perdure.MessageID `json:"message_id"`
	Offset    int               `json:"offset"`
	Delta     string            `json:"delta"`
}

// ModelCall is a model call that is due.
type ModelCall struct {
	Session *perdure.Session // as of the last commit
	Epoch   int64            // of its driver
	Command perdure.CallModel
	// Paused says that a person paused the session and this driver has not called the model for
	// this step: the model is not called before the pause ends.
	Paused bool
	// Resumed says that an earlier driver started the step, so clients may have seen some of its
	// text.
	Resumed bool
}

// Ask carries out a model call. It looks for stored text of the message, waits as the journal
// says, streams the response, and returns the outcome. It ends with ctx. An interrupt completes the
// message with the text so far, marked as interrupted. With CauseShutdown nothing is recorded and
// the second result is false: the step resumes later.
func (g *Generator) Ask(ctx context.Context, q ModelCall) (core.Outcome, bool) {
	s, c := q.Session, q.Command
	ctx = g.core.Telemetry.InTurn(ctx, s)
	kept, ok := g.loadStoredText(ctx, q)
	if !ok {
		return core.Outcome{}, false
	}
	stored := modelReply{Answer: kept.answer(), noted: kept.found}
	if err := g.core.Guarded("guard an answer", func() error { return g.checkGuardrails(kept.text) }); err != nil {
		// text that cannot be checked is shown to nobody
		return g.failedAnswer(q, err, modelReply{noted: kept.found}), true
	}
	switch {
	case c.Stop:
		return g.stoppedAnswer(q, stored), true
	case kept.text != "" && (q.Paused || q.Resumed && g.recoveryMode(q, g.hasAttempts(c)) != perdure.RecoverContinue):
		return g.interruptedAnswer(q, brokenOff(c), nil, stored), true
	case q.Paused:
		return core.Outcome{Events: g.events(s, c, brokenOff(c))}, true
	case !c.NotBefore.IsZero() && !core.Wait(ctx, time.Until(c.NotBefore)):
		return g.neverAsked(s, c, stored), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	if err := g.dependency(ctx, s.Agent); err != nil && ctx.Err() == nil {
		return g.failedAnswer(q, err, stored), true
	}
	var unread error
	if kept.unread || !c.NotBefore.IsZero() { // otherwise they were read just now
		unread = g.secretsUnreadable(s.ID)
	}
	if unread != nil && ctx.Err() == nil {
		if kept.text != "" && g.recoveryMode(q, g.hasAttempts(c)) == perdure.RecoverContinue {
			stored = modelReply{} // the stored text stays where it is
		}
		return g.discardedAnswer(q, unread, nil, stored), true
	}
	start := time.Now()
	answer, err := g.stream(ctx, q, kept)
	answer.took = time.Since(start)
	unread = g.secretsUnreadable(s.ID)
	if ctx.Err() != nil {
		if unread != nil {
			answer.Message = kept.answer().Message
		}
		return g.stoppedAnswer(q, answer), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	var tripped *guardrailError
	switch {
	case errors.As(err, &tripped):
		return g.guardedAnswer(q, tripped, answer), true
	case unread != nil && (err == nil || answer.Message.Text() != ""):
		bill := perdure.Generation{Model: answer.Model, Usage: answer.Usage, DurationMS: answer.took.Milliseconds(),
			Error: string(model.Unavailable)}
		return g.recovered(q, kept, g.discardedAnswer(q, unread, []perdure.Fact{bill}, answer)), true
	case err != nil:
		return g.recovered(q, kept, g.failedAnswer(q, err, answer)), true
	}
	return g.recovered(q, kept, g.answerOutcome(ctx, q, answer)), true
}

// brokenOff is the failure of an attempt that ended because the engine stopped.
func brokenOff(c perdure.CallModel) perdure.ReasonCompleted {
	return perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeBrokenOff,
		Error: "the response was interrupted when the engine stopped", Retryable: true}
}

// recovered adds the recovery event to the outcome of a step that an earlier driver started.
func (g *Generator) recovered(q ModelCall, kept storedText, o core.Outcome) core.Outcome {
	if !q.Resumed {
		return o
	}
	how := perdure.ReasonRecovered{MessageID: q.Command.Message, Mode: perdure.RecoverRestart}
	if kept.text != "" {
		how.Mode, how.TextBytes = perdure.RecoverContinue, len(kept.prefix())
	}
	o.Events = append(g.events(q.Session, q.Command, how), o.Events...)
	return o
}

// modelReply is the result of one attempt, and how long it took.
type modelReply struct {
	model.Answer
	took  time.Duration
	noted bool // the store may have a checkpoint
}

// checkpointToDrop returns the message whose checkpoint is removed with the outcome; empty: it has
// none.
func (a modelReply) checkpointToDrop(c perdure.CallModel) perdure.MessageID {
	if a.noted {
		return c.Message
	}
	return ""
}
