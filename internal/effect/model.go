package effect

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
)

// deltaBatch is how long text is gathered before live watchers get it (TN6).
const deltaBatch = 100 * time.Millisecond

// OutputDelta is the live frame of an answer that streams: only what is new (EV6).
type OutputDelta struct {
	MessageID perdure.MessageID `json:"message_id"`
	Delta     string            `json:"delta"`
}

// AskModel carries out a CallModel: it waits as the journal says, streams the model, and returns the
// outcome. It ends with ctx; a stop that was asked for completes the message as interrupted (RC8). With
// CauseShutdown nothing is recorded, and the second result is false: the step is taken up again.
func (e *Effects) AskModel(ctx context.Context, s *perdure.Session, c perdure.CallModel) (Outcome, bool) {
	if c.Stop {
		return e.stoppedAnswer(s, c, model.Answer{}), true
	}
	if !c.NotBefore.IsZero() && !wait(ctx, time.Until(c.NotBefore)) {
		return e.neverAsked(s, c), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	begun := time.Now()
	answer, err := e.stream(ctx, e.request(s, c), c.Message)
	if ctx.Err() != nil {
		return e.stoppedAnswer(s, c, answer), perdure.CauseOf(ctx) == perdure.CauseInterrupt
	}
	got := reply{Answer: answer, took: time.Since(begun)}
	if err != nil {
		return e.failedAnswer(s, c, err, got), true
	}
	return e.answered(ctx, s, c, got), true
}

// reply is what one attempt brought, and how long it took.
type reply struct {
	model.Answer
	took time.Duration
}

// request builds the question from the fold.
func (e *Effects) request(s *perdure.Session, c perdure.CallModel) model.Request {
	req := model.Request{Session: s.ID, Model: s.Turn.Model, Messages: s.Context(), Attempt: c.Attempt}
	prompts := []string{}
	if s.Agent.Instructions != "" {
		prompts = append(prompts, s.Agent.Instructions)
	}
	tools, parts := e.told(e.visible(s.Agent))
	req.Tools = tools
	req.System = strings.Join(append(prompts, parts...), "\n\n")
	return req
}

// stream asks once and shows what comes to live watchers. A stream without content for the stall timeout
// is ended as provider_stalled (TN8).
func (e *Effects) stream(ctx context.Context, req model.Request, id perdure.MessageID) (model.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := &model.Error{Code: model.Stalled, Text: "no content for " + e.cfg.StallTimeout.String()}
	watchdog := time.AfterFunc(e.cfg.StallTimeout, func() { cancel(stalled) })
	defer watchdog.Stop()
	live := batch{publish: func(text string) {
		e.cfg.Sign(req.Session)
		e.cfg.Store.Publish(store.Frame{Session: req.Session, Type: "output.message.delta", Data: OutputDelta{MessageID: id, Delta: text}})
	}}
	var answer model.Answer
	err := e.guarded("ask the model", func() (err error) {
		answer, err = model.Collect(e.cfg.Model.Stream(ctx, req), func(d model.Delta) {
			watchdog.Reset(e.cfg.StallTimeout) // each delta is content; keep-alives are none
			live.add(d.Text)
		})
		return err
	})
	live.flush()
	if errors.Is(context.Cause(ctx), stalled) {
		return answer, stalled
	}
	return answer, err
}

// batch gathers text for live watchers.
type batch struct {
	publish func(string)
	text    strings.Builder
	since   time.Time
}

func (b *batch) add(text string) {
	if b.text.Len() == 0 {
		b.since = time.Now()
	}
	b.text.WriteString(text)
	if time.Since(b.since) >= deltaBatch {
		b.flush()
	}
}

func (b *batch) flush() {
	if b.text.Len() > 0 {
		b.publish(b.text.String())
		b.text.Reset()
	}
}

// answered makes the outcome of a whole answer: the message, its bill, and the plan of its calls are one
// commit, and only then does any call of it exist (TN5).
func (e *Effects) answered(ctx context.Context, s *perdure.Session, c perdure.CallModel, a reply) Outcome {
	message := a.Message
	message.ID, message.Role, message.Model, message.At = c.Message, perdure.RoleAgent, a.Model, time.Now().UTC().Truncate(time.Microsecond)
	message.Parts = nameCalls(s, message.Parts)
	calls := message.Calls()
	if strings.TrimSpace(message.Text()) == "" && len(calls) == 0 && a.Finish != model.FinishRefusal {
		return e.failedAnswer(s, c, errEmptyAnswer, a)
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
	return Outcome{Events: e.events(s, c, facts...)}
}

// errEmptyAnswer is an answer without text and calls (TN22).
var errEmptyAnswer = &model.Error{Code: perdure.CodeEmptyAnswer, Text: "the model answered nothing"}

// failedAnswer makes the outcome of an attempt that failed. Its message stays open for the next attempt, unless
// text of it was seen: then that text stands, and is never asked for again (TN20, TN21).
func (e *Effects) failedAnswer(s *perdure.Session, c perdure.CallModel, err error, a reply) Outcome {
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
	text := a.Message.Text()
	if strings.TrimSpace(text) == "" {
		return Outcome{Events: e.events(s, c, bill, failure)}
	}
	failure.TextPreview = preview(text)
	failure.Discarded += len(a.Message.Calls()) // whole ones too: their message never was
	return Outcome{Events: e.events(s, c, keptText(c.Message, a.Answer), bill,
		perdure.ReasonRecovered{MessageID: c.Message, Mode: perdure.RecoverFinalize, KeptLen: len(text), Message: cutOffNotice()}, failure)}
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
func (e *Effects) stoppedAnswer(s *perdure.Session, c perdure.CallModel, a model.Answer) Outcome {
	return Outcome{Events: e.events(s, c,
		keptText(c.Message, a),
		perdure.Generation{Model: a.Model, Usage: a.Usage, Error: perdure.CodeInterrupted},
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"},
	)}
}

// neverAsked completes a message whose model call was stopped in the wait before it: there is nothing to bill.
func (e *Effects) neverAsked(s *perdure.Session, c perdure.CallModel) Outcome {
	return Outcome{Events: e.events(s, c, keptText(c.Message, model.Answer{}),
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

// wait waits for d, and reports whether it did.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
