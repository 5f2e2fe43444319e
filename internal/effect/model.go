package effect

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
)

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

// ModelCall returns a model call of this session.
func (d *Drive) ModelCall(c perdure.CallModel) ModelCall {
	return ModelCall{
		Session: d.session, Epoch: d.row.Epoch, Command: c,
		Paused:  d.session.Paused != nil && d.inheritedExec == c.Exec,
		Resumed: d.inheritedExec == c.Exec && !c.NotBefore.After(time.Now()),
	}
}

// AskModel carries out a model call. It looks for stored text of the message, waits as the journal
// says, streams the response, and returns the outcome. It ends with ctx. An interrupt completes the
// message with the text so far, marked as interrupted. With CauseShutdown nothing is recorded and
// the second result is false: the step resumes later.
func (e *Effects) AskModel(ctx context.Context, q ModelCall) (core.Outcome, bool) {
	s, c := q.Session, q.Command
	ctx = e.core.Telemetry.InTurn(ctx, s)
	kept, ok := e.loadStoredText(ctx, q)
	if !ok {
		return core.Outcome{}, false
	}
	stored := modelReply{Answer: kept.answer(), noted: kept.found}
	if err := e.core.Guarded("guard an answer", func() error { return e.checkGuardrails(kept.text) }); err != nil {
		// text that cannot be checked is shown to nobody
		return e.failedAnswer(q, err, modelReply{noted: kept.found}), true
	}
	switch {
	case c.Stop:
		return e.stoppedAnswer(q, stored), true
	case kept.text != "" && (q.Paused || q.Resumed && e.recoveryMode(q, e.hasAttempts(c)) != perdure.RecoverContinue):
		return e.interruptedAnswer(q, brokenOff(c), nil, stored), true
	case q.Paused:
		return core.Outcome{Events: e.events(s, c, brokenOff(c))}, true
	case !c.NotBefore.IsZero() && !core.Wait(ctx, time.Until(c.NotBefore)):
		return e.neverAsked(s, c, stored), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	if err := e.dependency(ctx, s.Agent); err != nil && ctx.Err() == nil {
		return e.failedAnswer(q, err, stored), true
	}
	var unread error
	if kept.unread || !c.NotBefore.IsZero() { // otherwise they were read just now
		unread = e.secretsUnreadable(s.ID)
	}
	if unread != nil && ctx.Err() == nil {
		if kept.text != "" && e.recoveryMode(q, e.hasAttempts(c)) == perdure.RecoverContinue {
			stored = modelReply{} // the stored text stays where it is
		}
		return e.discardedAnswer(q, unread, nil, stored), true
	}
	start := time.Now()
	answer, err := e.stream(ctx, q, kept)
	answer.took = time.Since(start)
	unread = e.secretsUnreadable(s.ID)
	if ctx.Err() != nil {
		if unread != nil {
			answer.Message = kept.answer().Message
		}
		return e.stoppedAnswer(q, answer), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	var tripped *guardrailError
	switch {
	case errors.As(err, &tripped):
		return e.guardedAnswer(q, tripped, answer), true
	case unread != nil && (err == nil || answer.Message.Text() != ""):
		bill := perdure.Generation{Model: answer.Model, Usage: answer.Usage, DurationMS: answer.took.Milliseconds(),
			Error: string(model.Unavailable)}
		return e.recovered(q, kept, e.discardedAnswer(q, unread, []perdure.Fact{bill}, answer)), true
	case err != nil:
		return e.recovered(q, kept, e.failedAnswer(q, err, answer)), true
	}
	return e.recovered(q, kept, e.answerOutcome(ctx, q, answer)), true
}

// brokenOff is the failure of an attempt that ended because the engine stopped.
func brokenOff(c perdure.CallModel) perdure.ReasonCompleted {
	return perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeBrokenOff,
		Error: "the response was interrupted when the engine stopped", Retryable: true}
}

// recovered adds the recovery event to the outcome of a step that an earlier driver started.
func (e *Effects) recovered(q ModelCall, kept storedText, o core.Outcome) core.Outcome {
	if !q.Resumed {
		return o
	}
	how := perdure.ReasonRecovered{MessageID: q.Command.Message, Mode: perdure.RecoverRestart}
	if kept.text != "" {
		how.Mode, how.TextBytes = perdure.RecoverContinue, len(kept.prefix())
	}
	o.Events = append(e.events(q.Session, q.Command, how), o.Events...)
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

// request builds the model request from the fold.
func (e *Effects) request(s *perdure.Session, c perdure.CallModel) model.Request {
	req := model.Request{Session: s.ID, Messages: s.Context(), Attempt: c.Attempt}
	if s.Turn != nil {
		req.Model = s.Turn.Model
	}
	prompts := []string{}
	if s.Agent.Instructions != "" {
		prompts = append(prompts, s.Agent.Instructions)
	}
	tools, parts := e.toolset.Definitions(e.toolset.Visible(s.Agent, core.HasDetachedWork(s)))
	req.Tools = tools
	req.System = strings.Join(append(prompts, parts...), "\n\n")
	return req
}

// stream calls the model once and publishes the text to live watchers. A stream without content for
// the stall timeout ends as provider_stalled.
//
// The response continues the stored text. If a guardrail trips, the response ends, and the text on
// which it tripped is shown to nobody.
func (e *Effects) stream(ctx context.Context, q ModelCall, kept storedText) (modelReply, error) {
	req, id := e.request(q.Session, q.Command), q.Command.Message
	req.Messages = e.resolvedImages(ctx, q.Session.ID, req.Messages)
	req.Prefix = kept.prefix()
	kept.text = req.Prefix
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := &model.Error{Code: model.Stalled, Text: "no content for " + e.core.StallTimeout.String()}
	watchdog := time.AfterFunc(e.core.StallTimeout, func() { cancel(stalled) })
	defer watchdog.Stop()
	live := deltaBuffer{offset: len(req.Prefix), publish: func(offset int, text string) {
		e.core.Activity(req.Session)
		e.core.Store.Publish(store.Frame{Session: req.Session, Type: DeltaFrame,
			Data: OutputDelta{MessageID: id, Offset: offset, Delta: text}})
	}}
	saved := e.checkpointOf(q, kept, live.markStored)
	redactor := streamRedactor{known: e.secrets.Known(req.Session)}
	redactor.feed(req.Prefix) // a secret may start in the stored text
	var answer model.Answer
	err := e.core.Guarded("ask the model", func() (err error) {
		answer, err = model.Collect(e.guardedStream(e.core.Model.Stream(ctx, req), req.Prefix), func(d model.Delta) {
			watchdog.Reset(e.core.StallTimeout) // every delta is content; keep-alives are not delivered as deltas
			text := redactor.feed(d.Text)
			live.add(text)
			saved.add(text)
		})
		return err
	})
	got := modelReply{Answer: answer.WithPrefix(req.Prefix), noted: saved.end()}
	if tripped := new(guardrailError); errors.As(err, &tripped) {
		live.drop()
		return got, err
	}
	live.add(redactor.flush())
	live.flush()
	if errors.Is(context.Cause(ctx), stalled) {
		return got, stalled
	}
	return got, err
}

// guardedStream ends a stream when its text trips a guardrail, before the offending delta is passed
// on.
func (e *Effects) guardedStream(stream iter.Seq2[model.Delta, error], prefix string) iter.Seq2[model.Delta, error] {
	if len(e.core.Guardrails) == 0 {
		return stream
	}
	return func(yield func(model.Delta, error) bool) {
		var text strings.Builder
		text.WriteString(prefix)
		for d, err := range stream {
			if text.WriteString(d.Text); err == nil && d.Text != "" {
				if err := e.checkGuardrails(text.String()); err != nil {
					yield(model.Delta{}, err)
					return
				}
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// answerOutcome returns the outcome of a complete response. The message, its cost and the plan of
// its calls are one commit; no call exists before it.
func (e *Effects) answerOutcome(ctx context.Context, q ModelCall, a modelReply) core.Outcome {
	s, c := q.Session, q.Command
	message := a.Message
	message.ID, message.Role, message.Model, message.At = c.Message, perdure.RoleAgent, a.Model,
		time.Now().UTC().Truncate(time.Microsecond)
	message.Parts = nameCalls(s, message.Parts)
	message = e.secrets.Redact(s, message)
	calls := message.Calls()
	if strings.TrimSpace(message.Text()) == "" && len(calls) == 0 && a.Finish != model.FinishRefusal {
		return e.failedAnswer(q, errEmptyAnswer, a)
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
		facts = append(facts, e.admission.Plan(ctx, s, calls))
	}
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: e.events(s, c, facts...)}
}

// errEmptyAnswer is a response without text and calls.
var errEmptyAnswer = &model.Error{Code: perdure.CodeEmptyAnswer, Text: "the model returned an empty response"}

// failedAnswer returns the outcome of a failed attempt. The message stays open for the next
// attempt, unless it has text: then the agent's recovery policy decides.
func (e *Effects) failedAnswer(q ModelCall, err error, a modelReply) core.Outcome {
	s, c := q.Session, q.Command
	if tripped := new(guardrailError); errors.As(err, &tripped) {
		return e.guardedAnswer(q, tripped, a)
	}
	failure := perdure.ReasonCompleted{ExecID: c.Exec, Code: string(model.Processing), Discarded: a.Discarded,
		DurationMS: a.took.Milliseconds()}
	var known *model.Error
	if errors.As(err, &known) {
		failure.Code, failure.RetryAfter, failure.Error = string(known.Code), known.RetryAfter, known.Text
		failure.Retryable = known.Code.Retryable() || known.Code == perdure.CodeEmptyAnswer
	} else {
		failure.Error = "the model could not be called"
		e.core.Log.Error("model call failed", "session", s.ID, "exec", c.Exec, "error", err)
	}
	bill := perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(), Error: failure.Code}
	if strings.TrimSpace(a.Message.Text()) == "" {
		return core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: e.events(s, c, bill, failure)}
	}
	return e.interruptedAnswer(q, failure, []perdure.Fact{bill}, a)
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
func (e *Effects) stoppedAnswer(q ModelCall, a modelReply) core.Outcome {
	c := q.Command
	return core.Outcome{DropCheckpoint: a.checkpointToDrop(c), Events: e.events(q.Session, c,
		keptText(c.Message, e.redacted(q.Session, a.Answer)),
		perdure.Generation{Model: a.Model, Usage: a.Usage, Error: perdure.CodeInterrupted},
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"},
	)}
}

// neverAsked completes a message that was interrupted before the model was called: there is no
// cost.
func (e *Effects) neverAsked(s *perdure.Session, c perdure.CallModel, stored modelReply) core.Outcome {
	return core.Outcome{DropCheckpoint: stored.checkpointToDrop(c), Events: e.events(s, c, keptText(c.Message, e.redacted(s, stored.Answer)),
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"})}
}

func (e *Effects) events(s *perdure.Session, c perdure.CallModel, facts ...perdure.Fact) []perdure.Event {
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
func (e *Effects) Summarise(ctx context.Context, s *perdure.Session, c perdure.SummariseContext) (core.Outcome, bool) {
	asking, stop := context.WithTimeout(e.core.Telemetry.InTurn(ctx, s), summaryTime)
	defer stop()
	req := model.Request{
		Session: s.ID, System: summaryPrompt, MaxTokens: summaryTokens, Attempt: 1,
		Messages: []perdure.Message{perdure.Text(renderedTranscript(s.Omitted(c)))},
	}
	if s.Turn != nil {
		req.Model = s.Turn.Model
	}
	work, refused, err := e.reserveSummary(ctx, s, req.Model, len(req.System)+len(req.Messages[0].Text()))
	if err != nil || refused != nil {
		e.core.Log.Warn("dropped messages not summarised", "session", s.ID, "turn", c.Turn, "refused", refused,
			"error", err)
		return core.Outcome{Events: c.Events(s, "")}, ctx.Err() == nil
	}
	start := time.Now()
	var answer model.Answer
	err = e.core.Guarded("summarise", func() (err error) {
		if answer, err = model.Collect(e.core.Model.Stream(asking, req), nil); err != nil {
			return err
		}
		if err := e.checkGuardrails(answer.Message.Text()); err != nil {
			return err
		}
		return e.secretsUnreadable(s.ID)
	})
	if ctx.Err() != nil {
		return core.Outcome{}, false
	}
	answer = e.redacted(s, answer)
	summary := answer.Message.Text()
	bill := perdure.Generation{Model: answer.Model, Usage: answer.Usage, DurationMS: time.Since(start).Milliseconds(),
		FinishReason: string(answer.Finish)}
	if err != nil {
		summary, bill.Error = "", perdure.CodeProcessing
		e.core.Log.Warn("dropped messages not summarised", "session", s.ID, "turn", c.Turn, "error", err)
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
