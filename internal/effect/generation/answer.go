package generation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
)

// answerOutcome returns the outcome of a complete response. The message, its cost and the plan of
// its calls are one commit; no call exists before it.
func (g *Generator) answerOutcome(ctx context.Context, q ModelCall, a modelReply) core.Outcome {
	s, c := q.Session, q.Command
	message := a.Message
	message.ID, message.Role, message.Model, message.At = c.Message, perdure.RoleAgent, a.Model,
		time.Now().UTC().Truncate(time.Microsecond)
	message.Parts = nameCalls(s, message.Parts)
	message = g.secrets.Redact(s, message)
	calls := message.Calls()
	if strings.TrimSpace(message.Text()) == "" && len(calls) == 0 && a.Finish != model.FinishRefusal {
		return g.failedAnswer(q, errEmptyAnswer, a)
	}
	done := perdure.ReasonCompleted{
		ExecID: c.Exec, Success: true, TextPreview: preview(message.Text()), ToolCallCount: len(calls),
		Refusal: a.Finish == model.FinishRefusal, Discarded: a.Discarded, DurationMS: a.took.Milliseconds(),
	}
	facts := []perdure.Fact{
		perdure.OutputCompleted{Message: message, Usage: a.Usage, FinishReason: string(a.Finish)},
		perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(),
			FinishReason: string(a.Finish)},
		done,
	}
	if len(calls) > 0 {
		facts = append(facts, g.planner.Plan(ctx, s, calls))
	}
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: g.events(s, c, facts...)}
}

// errEmptyAnswer is a response without text and calls.
var errEmptyAnswer = &model.Error{Code: perdure.CodeEmptyAnswer, Text: "the model returned an empty response"}

// failedAnswer returns the outcome of a failed attempt. The message stays open for the next
// attempt, unless it has text: then the agent's recovery policy decides.
func (g *Generator) failedAnswer(q ModelCall, err error, a modelReply) core.Outcome {
	s, c := q.Session, q.Command
	if tripped := new(guardrailError); errors.As(err, &tripped) {
		return g.guardedAnswer(q, tripped, a)
	}
	failure := perdure.ReasonCompleted{ExecID: c.Exec, Code: string(model.Processing), Discarded: a.Discarded,
		DurationMS: a.took.Milliseconds()}
	var known *model.Error
	if errors.As(err, &known) {
		failure.Code, failure.RetryAfter, failure.Error = string(known.Code), known.RetryAfter, known.Text
		failure.Retryable = known.Code.Retryable() || known.Again || known.Code == perdure.CodeEmptyAnswer
	} else {
		failure.Error = "the model could not be called"
		g.core.Log.Error("model call failed", "session", s.ID, "exec", c.Exec, "error", err)
	}
	bill := perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(), Error: failure.Code}
	if strings.TrimSpace(a.Message.Text()) == "" {
		return core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: g.events(s, c, bill, failure)}
	}
	return g.interruptedAnswer(q, failure, []perdure.Fact{bill}, a)
}

// keptText completes a message with the text that arrived, marked as interrupted and without calls.
func keptText(id perdure.MessageID, a model.Answer) perdure.OutputCompleted {
	message := perdure.Message{ID: id, Role: perdure.RoleAgent, Interrupted: true, Model: a.Model,
		At: time.Now().UTC().Truncate(time.Microsecond)}
	if text := a.Message.Text(); text != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: text}}
	}
	return perdure.OutputCompleted{Message: message, Usage: a.Usage, Interrupted: true, FinishReason: "interrupted"}
}

// cutOffNotice tells the model why its last message is incomplete.
func cutOffNotice() perdure.Message {
	text := "Your last message was cut off there. The text so far was shown and is part of the conversation; none of " +
		"its tool calls was made. If it still matters, continue from there without repeating it."
	return perdure.Message{ID: core.NewMessageID(), Role: perdure.RoleNotification,
		Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}}
}

// stoppedAnswer completes a message that was interrupted with its turn: the text so far, marked,
// and no calls.
func (g *Generator) stoppedAnswer(q ModelCall, a modelReply) core.Outcome {
	c := q.Command
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: g.events(q.Session, c,
		keptText(c.Message, g.redacted(q.Session, a.Answer)),
		perdure.Generation{Model: a.Model, Usage: a.Usage, Error: perdure.CodeInterrupted},
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"},
	)}
}

// neverAsked completes a message that was interrupted before the model was called: there is no
// cost.
func (g *Generator) neverAsked(s *perdure.Session, c perdure.CallModel, stored modelReply) core.Outcome {
	return core.Outcome{DropCheckpoint: stored.checkpointToDrop(c), Events: g.events(s, c, keptText(c.Message, g.redacted(s, stored.Answer)),
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"})}
}

// interruptedAnswer returns the outcome of an attempt that ended early with text. bill is what the
// attempt cost, if the model was called.
func (g *Generator) interruptedAnswer(q ModelCall, failure perdure.ReasonCompleted, bill []perdure.Fact, a modelReply) core.Outcome {
	s, c := q.Session, q.Command
	a.Answer = g.redacted(s, a.Answer)
	text := a.Message.Text()
	failure.TextPreview = preview(text)
	failure.Discarded += len(a.Message.Calls()) // complete calls count too: their message was never recorded
	recovered := perdure.ReasonRecovered{MessageID: c.Message, Mode: g.recoveryMode(q, failure.Retryable && g.hasAttempts(c)),
		TextBytes: len(text)}
	notice := recovered
	notice.Mode, notice.Message = perdure.RecoverFinalize, cutOffNotice()
	final := core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: g.events(s, c,
		append(append([]perdure.Fact{keptText(c.Message, a.Answer)}, bill...), notice, failure)...)}
	switch recovered.Mode {
	case perdure.RecoverContinue:
		return core.Outcome{
			Checkpoint: &store.Partial{Session: s.ID, Message: c.Message, Text: text},
			Events:     g.events(s, c, append(append([]perdure.Fact{}, bill...), recovered, failure)...),
			IfEnding:   &final,
		}
	case perdure.RecoverRestart: // the same message starts again, so clients that saw its text must discard it
		recovered.TextBytes, failure.TextPreview = 0, ""
		replaced := perdure.OutputReplaced{MessageID: c.Message, ReasonCode: perdure.ReplacedByRestart}
		return core.Outcome{
			DropCheckpoint: a.checkpointToDrop(c),
			Events:         g.events(s, c, append(append([]perdure.Fact{replaced}, bill...), recovered, failure)...),
			IfEnding:       &final,
		}
	}
	return final
}

// guardedAnswer returns the outcome of a response that a guardrail ended: the replacement is its
// only text.
func (g *Generator) guardedAnswer(q ModelCall, t *guardrailError, a modelReply) core.Outcome {
	message := perdure.Message{ID: q.Command.Message, Role: perdure.RoleAgent, Model: a.Model,
		At: time.Now().UTC().Truncate(time.Microsecond)}
	if t.replacement != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: t.replacement}}
	}
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(q.Command), Events: g.events(q.Session, q.Command,
		perdure.OutputReplaced{MessageID: q.Command.Message, Guardrail: t.guard, ReasonCode: perdure.ReplacedByGuard,
			Replacement: t.replacement},
		perdure.OutputCompleted{Message: message, Usage: a.Usage, FinishReason: perdure.ReplacedByGuard},
		perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(),
			FinishReason: perdure.ReplacedByGuard},
		perdure.ReasonCompleted{
			ExecID: q.Command.Exec, Success: true,
			TextPreview: preview(t.replacement), DurationMS: a.took.Milliseconds(),
			Discarded: a.Discarded + len(a.Message.Calls()),
		})}
}

// discardedAnswer returns the outcome of an attempt whose text must not be recorded, because it may
// contain a secret that cannot be read now. Only its cost is recorded. Text that was shown is
// withdrawn, and the message stays open for the next attempt. The model may not have been called at
// all.
func (g *Generator) discardedAnswer(q ModelCall, why error, bill []perdure.Fact, a modelReply) core.Outcome {
	failure := perdure.ReasonCompleted{
		ExecID: q.Command.Exec, Code: string(model.Unavailable), Error: why.Error(), Retryable: true,
		Discarded: a.Discarded + len(a.Message.Calls()), DurationMS: a.took.Milliseconds(),
	}
	var known *model.Error
	if errors.As(why, &known) {
		failure.Error = known.Text
	}
	facts := append(slices.Clone(bill), failure)
	if strings.TrimSpace(a.Message.Text()) != "" {
		facts = append([]perdure.Fact{perdure.OutputReplaced{MessageID: q.Command.Message,
			ReasonCode: perdure.ReplacedByRestart}}, facts...)
	}
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(q.Command), Events: g.events(q.Session, q.Command, facts...)}
}

// redacted masks secrets in the text of an incomplete response, as sealed does for a complete one.
func (g *Generator) redacted(s *perdure.Session, a model.Answer) model.Answer {
	text := a.Message.Text()
	if text == "" {
		return a
	}
	for _, v := range g.secrets.In(s, a.Message) {
		text = v.Mask(text)
	}
	var parts []perdure.Part
	if text != redact.Unprintable { // with Unprintable it is not known which part of the text is secret
		parts = append(parts, perdure.Part{Type: perdure.PartText, Text: text})
	}
	for _, part := range a.Message.Parts {
		if part.Type != perdure.PartText {
			parts = append(parts, part)
		}
	}
	a.Message.Parts = parts
	return a
}

// secretsUnreadable returns an error for the step if the secrets of a session cannot be read; nil:
// they can, or there are none.
func (g *Generator) secretsUnreadable(id perdure.SessionID) error {
	known := g.secrets.Known(id)
	if known == nil {
		return nil
	}
	if err := known.Complete(); err != nil {
		return &model.Error{Code: model.Unavailable,
			Text: "the session's secrets cannot be read, so no response can be recorded", Err: err}
	}
	return nil
}

func (g *Generator) events(s *perdure.Session, c perdure.CallModel, facts ...perdure.Fact) []perdure.Event {
	var events []perdure.Event
	for _, fact := range facts {
		events = append(events, perdure.Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: fact})
	}
	return events
}

// nameCalls gives every call an id that its session has not used. The provider's own id is kept
// too.
func nameCalls(s *perdure.Session, parts []perdure.Part) []perdure.Part {
	seen := map[perdure.CallID]bool{}
	named := make([]perdure.Part, len(parts))
	for i, part := range parts {
		named[i] = part
		if part.Type != perdure.PartToolCall || part.Call == nil {
			continue
		}
		call := *part.Call
		if used, _ := s.UsedCalls.Get(call.ID); used || seen[call.ID] || !plainCallID(call.ID) {
			call.ProviderCallID = string(call.ID)
			call.ID = newCallID()
		}
		seen[call.ID] = true
		named[i].Call = &call
	}
	return named
}

// plainCallID reports whether an id may appear unescaped in commands and URLs. The model chooses
// ids, and people paste them into a shell.
func plainCallID(id perdure.CallID) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"
	return id != "" && len(id) <= 128 && strings.Trim(string(id), plain) == ""
}

// newCallID returns a call id for a call without an id, with a used id, or with one that is not
// plain.
func newCallID() perdure.CallID {
	return perdure.CallID("call_" + strings.TrimPrefix(string(core.NewID[perdure.EventID]()), "event_"))
}

func preview(text string) string {
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200])
	}
	return text
}
