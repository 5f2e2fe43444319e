package effect

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
)

// deltaBatch is how long text is gathered before live watchers get it (TN6).
const deltaBatch = 100 * time.Millisecond

// DeltaFrame is the type of a frame that is an OutputDelta.
const DeltaFrame = "output.message.delta"

// OutputDelta is the live frame of an answer that streams: only what is new (EV6). The text is then the first Offset bytes of
// what it was, and Delta. Without a Delta it says that the store has Offset bytes of it; an engine keeps that to itself.
type OutputDelta struct {
	MessageID perdure.MessageID `json:"message_id"`
	Offset    int               `json:"offset"`
	Delta     string            `json:"delta"`
}

// Question is a model call that is due.
type Question struct {
	Session *perdure.Session // as of the last commit
	Epoch   int64            // under which its driver has it
	Command perdure.CallModel
	Held    bool // a person paused the session, and nobody here has asked: nobody is asked before the pause is over
	TakenUp bool // it was begun before the session was taken, so text of it may have been seen
}

// Question returns a model call of this session.
func (d *Drive) Question(c perdure.CallModel) Question {
	return Question{
		Session: d.session, Epoch: d.row.Epoch, Command: c,
		Held:    d.session.Paused != nil && d.asked == c.Exec,
		TakenUp: d.asked == c.Exec && !c.NotBefore.After(time.Now()),
	}
}

// AskModel carries out a CallModel: it looks for text that came before (TN20), waits as the journal says, streams the
// model, and returns the outcome. It ends with ctx; a stop that was asked for completes the message as interrupted (RC8).
// With CauseShutdown nothing is recorded, and the second result is false: the step is taken up again.
func (e *Effects) AskModel(ctx context.Context, q Question) (Outcome, bool) {
	s, c := q.Session, q.Command
	ctx = e.cfg.Telemetry.InTurn(ctx, s)
	kept, ok := e.kept(ctx, q)
	if !ok {
		return Outcome{}, false
	}
	before := reply{Answer: kept.answer(), noted: kept.found}
	if err := e.guarded("guard an answer", func() error { return e.checked(kept.text) }); err != nil {
		return e.failedAnswer(q, err, reply{noted: kept.found}), true // what cannot be checked is shown to nobody
	}
	switch {
	case c.Stop:
		return e.stoppedAnswer(q, before), true
	case kept.text != "" && (q.Held || q.TakenUp && e.recovery(q, e.mayAsk(c)) != perdure.RecoverContinue):
		return e.brokeOff(q, brokenOff(c), nil, before), true
	case q.Held:
		return Outcome{Events: e.events(s, c, brokenOff(c))}, true
	case !c.NotBefore.IsZero() && !wait(ctx, time.Until(c.NotBefore)):
		return e.neverAsked(s, c, before), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	if err := e.dependency(ctx, s.Agent); err != nil && ctx.Err() == nil {
		return e.failedAnswer(q, err, before), true
	}
	var unread error
	if kept.unread || !c.NotBefore.IsZero() { // else they were read just now
		unread = e.unread(s.ID)
	}
	if unread != nil && ctx.Err() == nil {
		if kept.text != "" && e.recovery(q, e.mayAsk(c)) == perdure.RecoverContinue {
			before = reply{} // it stays where it is
		}
		return e.unheard(q, unread, nil, before), true
	}
	begun := time.Now()
	answer, err := e.stream(ctx, q, kept)
	answer.took = time.Since(begun)
	unread = e.unread(s.ID)
	if ctx.Err() != nil {
		if unread != nil {
			answer.Message = kept.answer().Message
		}
		return e.stoppedAnswer(q, answer), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	var tripped *trip
	switch {
	case errors.As(err, &tripped):
		return e.withheld(q, tripped, answer), true
	case unread != nil && (err == nil || answer.Message.Text() != ""):
		bill := perdure.Generation{Model: answer.Model, Usage: answer.Usage, DurationMS: answer.took.Milliseconds(), Error: string(model.Unavailable)}
		return e.recovered(q, kept, e.unheard(q, unread, []perdure.Fact{bill}, answer)), true
	case err != nil:
		return e.recovered(q, kept, e.failedAnswer(q, err, answer)), true
	}
	return e.recovered(q, kept, e.answered(ctx, q, answer)), true
}

// brokenOff is the failure of an attempt that ended with the runtime.
func brokenOff(c perdure.CallModel) perdure.ReasonCompleted {
	return perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeBrokenOff, Error: "the answer broke off when the runtime stopped", Retryable: true}
}

// recovered adds to an outcome that its message was open when the session was taken (TN20).
func (e *Effects) recovered(q Question, kept kept, o Outcome) Outcome {
	if !q.TakenUp {
		return o
	}
	how := perdure.ReasonRecovered{MessageID: q.Command.Message, Mode: perdure.RecoverRestart}
	if kept.text != "" {
		how.Mode, how.KeptLen = perdure.RecoverContinue, len(kept.prefix())
	}
	o.Events = append(e.events(q.Session, q.Command, how), o.Events...)
	return o
}

// reply is what one attempt brought, and how long it took.
type reply struct {
	model.Answer
	took  time.Duration
	noted bool // the store may have a checkpoint
}

// dropped is the message whose checkpoint goes when it is complete; empty: there is none.
func (a reply) dropped(c perdure.CallModel) perdure.MessageID {
	if a.noted {
		return c.Message
	}
	return ""
}

// request builds the question from the fold.
func (e *Effects) request(s *perdure.Session, c perdure.CallModel) model.Request {
	req := model.Request{Session: s.ID, Messages: s.Context(), Attempt: c.Attempt}
	if s.Turn != nil {
		req.Model = s.Turn.Model
	}
	prompts := []string{}
	if s.Agent.Instructions != "" {
		prompts = append(prompts, s.Agent.Instructions)
	}
	tools, parts := e.told(e.visible(s.Agent, leftTurn(s)))
	req.Tools = tools
	req.System = strings.Join(append(prompts, parts...), "\n\n")
	return req
}

// stream asks once and shows what comes to live watchers. A stream without content for the stall timeout
// is ended as provider_stalled (TN8).
//
// The answer begins with what was kept. A guard that trips ends it, and what it tripped over is shown to nobody.
func (e *Effects) stream(ctx context.Context, q Question, kept kept) (reply, error) {
	req, id := e.request(q.Session, q.Command), q.Command.Message
	req.Messages = e.pictured(ctx, q.Session.ID, req.Messages)
	req.Prefix = kept.prefix()
	kept.text = req.Prefix
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := &model.Error{Code: model.Stalled, Text: "no content for " + e.cfg.StallTimeout.String()}
	watchdog := time.AfterFunc(e.cfg.StallTimeout, func() { cancel(stalled) })
	defer watchdog.Stop()
	live := batch{offset: len(req.Prefix), publish: func(offset int, text string) {
		e.cfg.Sign(req.Session)
		e.cfg.Store.Publish(store.Frame{Session: req.Session, Type: DeltaFrame, Data: OutputDelta{MessageID: id, Offset: offset, Delta: text}})
	}}
	saved := e.checkpointOf(q, kept, live.mark)
	said := hush{known: e.known(req.Session)}
	said.feed(req.Prefix) // a secret may begin in what was kept
	var answer model.Answer
	err := e.guarded("ask the model", func() (err error) {
		answer, err = model.Collect(e.watched(e.cfg.Model.Stream(ctx, req), req.Prefix), func(d model.Delta) {
			watchdog.Reset(e.cfg.StallTimeout) // each delta is content; keep-alives are none
			text := said.feed(d.Text)
			live.add(text)
			saved.add(text)
		})
		return err
	})
	got := reply{Answer: answer.After(req.Prefix), noted: saved.end()}
	if tripped := new(trip); errors.As(err, &tripped) {
		live.drop()
		return got, err
	}
	live.add(said.flush())
	live.flush()
	if errors.Is(context.Cause(ctx), stalled) {
		return got, stalled
	}
	return got, err
}

// watched ends a stream where its text trips a guard, before anybody sees the delta that did.
func (e *Effects) watched(stream iter.Seq2[model.Delta, error], prefix string) iter.Seq2[model.Delta, error] {
	if len(e.cfg.Guards) == 0 {
		return stream
	}
	return func(yield func(model.Delta, error) bool) {
		var text strings.Builder
		text.WriteString(prefix)
		for d, err := range stream {
			if text.WriteString(d.Text); err == nil && d.Text != "" {
				if err := e.checked(text.String()); err != nil {
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

// answered makes the outcome of a whole answer: the message, its bill, and the plan of its calls are one
// commit, and only then does any call of it exist (TN5).
func (e *Effects) answered(ctx context.Context, q Question, a reply) Outcome {
	s, c := q.Session, q.Command
	message := a.Message
	message.ID, message.Role, message.Model, message.At = c.Message, perdure.RoleAgent, a.Model, time.Now().UTC().Truncate(time.Microsecond)
	message.Parts = nameCalls(s, message.Parts)
	message = e.sealed(s, message)
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
		perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(), FinishReason: string(a.Finish)},
		done,
	}
	if len(calls) > 0 {
		facts = append(facts, e.plan(ctx, s, calls))
	}
	return Outcome{Drop: a.dropped(c), Events: e.events(s, c, facts...)}
}

// errEmptyAnswer is an answer without text and calls (TN22).
var errEmptyAnswer = &model.Error{Code: perdure.CodeEmptyAnswer, Text: "the model answered nothing"}

// failedAnswer makes the outcome of an attempt that failed. Its message stays open for the next attempt, unless
// text of it was seen: then the agent's policy says what becomes of it (TN20, TN21).
func (e *Effects) failedAnswer(q Question, err error, a reply) Outcome {
	s, c := q.Session, q.Command
	if tripped := new(trip); errors.As(err, &tripped) {
		return e.withheld(q, tripped, a)
	}
	failure := perdure.ReasonCompleted{ExecID: c.Exec, Code: string(model.Processing), Discarded: a.Discarded, DurationMS: a.took.Milliseconds()}
	var known *model.Error
	if errors.As(err, &known) {
		failure.Code, failure.RetryAfter, failure.Error = string(known.Code), known.RetryAfter, known.Text
		failure.Retryable = known.Code.Retryable() || known.Code == perdure.CodeEmptyAnswer
	} else {
		failure.Error = "the model could not be asked"
		e.cfg.Log.Error("a model call failed", "session", s.ID, "exec", c.Exec, "error", err)
	}
	bill := perdure.Generation{Model: a.Model, Usage: a.Usage, DurationMS: a.took.Milliseconds(), Error: failure.Code}
	if strings.TrimSpace(a.Message.Text()) == "" {
		return Outcome{Drop: a.dropped(c), Events: e.events(s, c, bill, failure)}
	}
	return e.brokeOff(q, failure, []perdure.Fact{bill}, a)
}

// keptText completes a message with the text that came, marked, and with no call (TN20).
func keptText(id perdure.MessageID, a model.Answer) perdure.OutputCompleted {
	message := perdure.Message{ID: id, Role: perdure.RoleAgent, Interrupted: true, Model: a.Model, At: time.Now().UTC().Truncate(time.Microsecond)}
	if text := a.Message.Text(); text != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: text}}
	}
	return perdure.OutputCompleted{Message: message, Usage: a.Usage, Interrupted: true, FinishReason: "interrupted"}
}

// cutOffNotice tells the model why its last message stops where it does.
func cutOffNotice() perdure.Message {
	text := "Your last message broke off there, before it was whole. What you wrote stands and was shown; no tool call of " +
		"it was made. Where it still matters, go on from there without repeating it."
	return perdure.Message{ID: NewMessageID(), Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}}
}

// stoppedAnswer completes a message that was stopped with its turn: the text so far, marked, and no call.
func (e *Effects) stoppedAnswer(q Question, a reply) Outcome {
	c := q.Command
	return Outcome{Drop: a.dropped(c), Events: e.events(q.Session, c,
		keptText(c.Message, e.hushed(q.Session, a.Answer)),
		perdure.Generation{Model: a.Model, Usage: a.Usage, Error: perdure.CodeInterrupted},
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"},
	)}
}

// neverAsked completes a message whose model call was stopped in the wait before it: there is nothing to bill.
func (e *Effects) neverAsked(s *perdure.Session, c perdure.CallModel, before reply) Outcome {
	return Outcome{Drop: before.dropped(c), Events: e.events(s, c, keptText(c.Message, e.hushed(s, before.Answer)),
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"})}
}

func (e *Effects) events(s *perdure.Session, c perdure.CallModel, facts ...perdure.Fact) []perdure.Event {
	var events []perdure.Event
	for _, fact := range facts {
		events = append(events, perdure.Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: fact})
	}
	return events
}

// nameCalls gives every call an id that its session has not used; the provider's own id is kept beside it (N7).
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

// plainCallID reports an id that may stand in commands and URLs as it is. Another one is the model's to choose, and
// people paste it into a shell.
func plainCallID(id perdure.CallID) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-"
	return id != "" && len(id) <= 128 && strings.Trim(string(id), plain) == ""
}

// newCallID mints a call id for a call that came without one, with one that was used before, or with one that is not plain.
func newCallID() perdure.CallID {
	return perdure.CallID("call_" + strings.TrimPrefix(string(NewID[perdure.EventID]()), "event_"))
}

func preview(text string) string {
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200])
	}
	return text
}

// How much of a conversation is shown to be summed up, and for how long its summary is waited.
const (
	summedBytes   = 96 << 10
	summaryTokens = 1000
	summaryTime   = 2 * time.Minute
)

const sumUp = "You are given the beginning of a conversation between a user and an agent that calls tools. Sum up in at most 300 words " +
	"what the agent needs to go on: what was asked, what was decided, what was found out, names, paths and numbers that matter, and " +
	"what is still to be done. Write nothing else."

// SumUp carries out a SumUp of the root: it asks the model for a summary of what is left out. Whatever goes wrong, it is
// left out without. Not told: the runtime stops.
func (e *Effects) SumUp(ctx context.Context, s *perdure.Session, c perdure.SumUp) (Outcome, bool) {
	asking, stop := context.WithTimeout(e.cfg.Telemetry.InTurn(ctx, s), summaryTime)
	defer stop()
	req := model.Request{
		Session: s.ID, System: sumUp, MaxTokens: summaryTokens, Attempt: 1,
		Messages: []perdure.Message{perdure.Text(retold(s.LeftOut(c)))},
	}
	if s.Turn != nil {
		req.Model = s.Turn.Model
	}
	work, refused, err := e.affordSum(ctx, s, req.Model, len(req.System)+len(req.Messages[0].Text()))
	if err != nil || refused != nil {
		e.cfg.Log.Warn("what is left out of a conversation is not summed up", "session", s.ID, "turn", c.Turn, "refused", refused, "error", err)
		return Outcome{Events: c.Events(s, "")}, ctx.Err() == nil
	}
	begun := time.Now()
	var answer model.Answer
	err = e.guarded("sum up", func() (err error) {
		if answer, err = model.Collect(e.cfg.Model.Stream(asking, req), nil); err != nil {
			return err
		}
		if err := e.checked(answer.Message.Text()); err != nil {
			return err
		}
		return e.unread(s.ID)
	})
	if ctx.Err() != nil {
		return Outcome{}, false
	}
	answer = e.hushed(s, answer)
	summary := answer.Message.Text()
	bill := perdure.Generation{Model: answer.Model, Usage: answer.Usage, DurationMS: time.Since(begun).Milliseconds(), FinishReason: string(answer.Finish)}
	if err != nil {
		summary, bill.Error = "", perdure.CodeProcessing
		e.cfg.Log.Warn("what is left out of a conversation could not be summed up", "session", s.ID, "turn", c.Turn, "error", err)
	}
	billed := perdure.Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: bill}
	return Outcome{Events: append([]perdure.Event{billed}, c.Events(s, summary)...), Work: work}, true
}

// retold writes messages down, the last ones where there are too many.
func retold(messages []perdure.Message) string {
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
		if size += len(line) + 1; size > summedBytes {
			break
		}
		lines = append(lines, strings.ToValidUTF8(line, "?"))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// Repair looks up the results of calls that have none, by session and call, in whatever turn they were made (TN17). Where
// the ledger cannot be read there is no repair, and no model call: it is asked again. Not told: the runtime stops.
func (e *Effects) Repair(ctx context.Context, s *perdure.Session, c perdure.RepairTranscript) (Outcome, bool) {
	for n := 1; ; n++ {
		var facts []perdure.Fact
		err := e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
			facts = facts[:0]
			for _, b := range c.Breaches {
				fact, err := repairOf(r, s.ID, b)
				if err != nil {
					return err
				}
				facts = append(facts, fact)
			}
			return nil
		})
		if err == nil {
			var events []perdure.Event
			for _, fact := range facts {
				events = append(events, perdure.Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: fact})
			}
			return Outcome{Events: events}, true
		}
		e.cfg.Log.Warn("a transcript cannot be repaired", "session", s.ID, "turn", c.Turn, "error", err)
		if !wait(ctx, perdure.RetryDelay(min(n, 5), 0, string(c.Turn))/10) {
			return Outcome{}, false
		}
	}
}

// repairOf is the table of TN17.
func repairOf(r store.Reader, session perdure.SessionID, b perdure.Breach) (perdure.TranscriptRepaired, error) {
	id := b.Call.ID
	fact := perdure.TranscriptRepaired{CallID: id, Tool: b.Call.Name}
	give := func(action string, result perdure.ToolResult) (perdure.TranscriptRepaired, error) {
		result.CallID = id
		fact.Action, fact.Result = action, &result
		return fact, nil
	}
	row, err := r.Call(perdure.CallKey{Session: session, Call: id})
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return fact, err
	}
	fact.TurnID, fact.Tool = row.Turn, orElse(fact.Tool, row.Tool)
	switch {
	case b.Dropped:
		fact.Action = perdure.RepairDropped
		return fact, nil
	case b.Result != nil: // it stood elsewhere
		return give(perdure.RepairReplay, *b.Result)
	case err != nil:
		return give(perdure.RepairNotExecuted, perdure.Refused(id, perdure.ErrorInterrupted, perdure.TextNotExecuted))
	case row.Task != "":
		task, err := r.Task(session, row.Task)
		if errors.Is(err, perdure.NotFound) { // it was pruned: the ledger has what the placeholder says
			task, err = perdure.Task{ID: row.Task, Tool: row.Tool}, nil
		}
		if err != nil {
			return fact, err
		}
		return give(perdure.RepairPlaceholder, placeholder(task, perdure.ToolDetached{CallID: id, TaskID: row.Task}))
	case row.State == perdure.CallSettled && row.Result != nil && row.Result.ErrorKind == perdure.ErrorInterrupted:
		return give(perdure.RepairInterrupted, *row.Result)
	case row.State == perdure.CallSettled && row.Result != nil:
		return give(perdure.RepairReplay, *row.Result)
	}
	return give(perdure.RepairUnknown, perdure.Failed(id, perdure.ErrorUnknown, perdure.TextUnknown)) // it ran, and nobody waits for it
}
