package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
)

// NotRunning is the error of [Ask] if nothing does the work of the session: its message would wait
// until a later start. The kind is Unavailable.
var NotRunning = fmt.Errorf("%w: the engine is not running, so nothing answers; call its Run in another goroutine",
	perdure.Unavailable)

// Ask is [Conversation.Ask] without functions that decide: it returns what waits for a person.
func Ask(ctx context.Context, eng Engine, id perdure.SessionID, m perdure.Message) (Answer, error) {
	return Conversation{Engine: eng, Session: id}.Ask(ctx, m)
}

// Conversation asks a session, and lets functions of the program decide what the session needs a
// person for. Engine and Session are required. It works in this process and over the network,
// beside other callers. Safe for concurrent use if its functions are.
type Conversation struct {
	Engine  Engine
	Session perdure.SessionID
	// OnApproval decides about a call that waits for an approval, also about one that runs in the
	// background. The verdict is bound to the arguments of a. An error ends Ask or Attend; the
	// approval stays open. After a restart the same approval comes again if it is still open. nil:
	// approvals are left to others.
	OnApproval func(ctx context.Context, a perdure.Approval) (perdure.Verdict, error)
	// OnQuestion answers the question of a task, which is t.InputRequest. An error ends Ask or
	// Attend; the question stays open. nil: questions are left to others.
	OnQuestion func(ctx context.Context, t perdure.Task) (perdure.TaskMessage, error)
}

// Answer is what a session answered to a message.
type Answer struct {
	Message perdure.MessageID // the message that was answered
	Turn    perdure.TurnID    // empty: no turn has begun with it
	// Text is the last text of the agent in the turn; empty: there was none, or Hold says why the
	// turn has not ended.
	Text       string
	Usage      perdure.Usage      // of the turn; zero before its end
	StopReason perdure.StopReason // empty: the turn has not ended, or ended with an error

	Running   []perdure.Task     // the tasks that continue in the background
	Approvals []perdure.Approval // the open approvals of the session and its tasks
	Questions []perdure.Task     // the tasks that wait for an answer
	// Hold says why the session does not continue until a person acts. nil: it waits for nobody.
	Hold *Hold
}

// TurnError says that a turn ended without an answer.
type TurnError struct {
	Turn      perdure.TurnID
	Code      string // of the failure; canceled; or why the runtime sealed the turn
	Text      string // for people
	Retryable bool   // asking again may succeed
}

// Error says why the turn ended.
func (e *TurnError) Error() string {
	text := "the turn ended without an answer (" + e.Code + ")"
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Unwrap returns Unavailable if asking again may succeed.
func (e *TurnError) Unwrap() error {
	if e.Retryable {
		return perdure.Unavailable
	}
	return nil
}

// Ask sends a message and returns the answer when the turn that read it has ended, or when the
// session does not continue until a person acts; then Answer.Hold is set. A message with an id
// (see perdure.Message.WithKey) can be asked again, also after a crash: it is sent once, and Ask
// waits for its answer or returns the one that it got.
//
// NotRunning: nothing runs the engine. A *TurnError: the turn ended without an answer; the Answer
// is returned, too. The other errors are those of Send and of reading the session. If ctx ends, the
// session continues.
func (c Conversation) Ask(ctx context.Context, m perdure.Message) (Answer, error) {
	ctx, stop, err := whileRunning(ctx, c.Engine)
	if err != nil {
		return Answer{}, fmt.Errorf("ask %s: %w", c.Session, err)
	}
	defer stop()
	sent, err := c.Engine.Send(ctx, c.Session, m)
	if err != nil {
		return Answer{}, err
	}
	r := &reply{Conversation: c, seq: sent.Seq, answer: Answer{Message: sent.ID}}
	if err := r.wait(ctx); err != nil {
		return r.answer, fmt.Errorf("ask %s: %w", c.Session, causeOf(ctx, err))
	}
	if err := r.describe(ctx); err != nil {
		return r.answer, fmt.Errorf("ask %s: %w", c.Session, causeOf(ctx, err))
	}
	if r.failed != nil {
		return r.answer, fmt.Errorf("ask %s: %w", c.Session, r.failed)
	}
	return r.answer, nil
}

// Attend calls OnApproval and OnQuestion for everything of the session that waits for a person,
// until ctx ends, whose cause it returns. It is for what happens outside of Ask: work in the
// background, schedules, and other callers.
func (c Conversation) Attend(ctx context.Context) error {
	s, err := c.Engine.Sessions().Get(ctx, c.Session)
	if err == nil {
		err = c.decide(ctx)
	}
	if err == nil {
		err = c.Engine.Follow(ctx, c.Session, s.LastSeq, func(f Frame) error {
			if f.Event == nil || !mayNeedPerson(f.Event.Fact) {
				return nil
			}
			return c.decide(ctx)
		})
	}
	return fmt.Errorf("attend %s: %w", c.Session, causeOf(ctx, err))
}

// runner is an engine that callers can open without running it.
type runner interface {
	// Running returns a channel that is closed when nothing does the work any longer; nil if that
	// cannot be known. NotRunning: nothing does it.
	Running(ctx context.Context) (ended <-chan struct{}, err error)
}

// whileRunning returns a context that ends, with NotRunning, when the engine stops. The caller
// calls stop.
func whileRunning(ctx context.Context, eng Engine) (_ context.Context, stop func(), err error) {
	r, ok := eng.(runner)
	if !ok {
		return ctx, func() {}, nil
	}
	ended, err := r.Running(ctx)
	if err != nil || ended == nil {
		return ctx, func() {}, err
	}
	work, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ended:
			cancel(NotRunning)
		case <-work.Done():
		}
	}()
	return work, func() { cancel(nil); <-watched }, nil
}

// causeOf returns the cause of ctx if err only results from its end.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// errAnswered ends the following of a session.
var errAnswered = errors.New("answered")

// reply is the answer to a message, as the events of the session show it.
type reply struct {
	Conversation
	seq    int64 // of the last event that was read
	read   bool  // the turn that runs has read the message
	ended  bool  // that turn has ended
	answer Answer
	texts  map[perdure.MessageID]string // of the turn that runs, by message
	last   perdure.MessageID            // the last one with a text
	failed error                        // a *TurnError
}

// wait reads events until the message is answered, or the session is held. What is stored is read
// first: a message that is sent again may be answered.
func (r *reply) wait(ctx context.Context) error {
	stored, err := r.Engine.Events(ctx, r.Session, r.seq, 0)
	if err != nil {
		return err
	}
	for _, e := range stored {
		if r.apply(e); r.ended {
			return nil
		}
	}
	if held, err := r.held(ctx); held || err != nil {
		return err
	}
	err = r.Engine.Follow(ctx, r.Session, r.seq, func(f Frame) error {
		if f.Event == nil {
			return nil
		}
		if r.apply(*f.Event); r.ended {
			return errAnswered
		}
		if !mayNeedPerson(f.Event.Fact) {
			return nil
		}
		held, err := r.held(ctx)
		if held && err == nil {
			err = errAnswered
		}
		return err
	})
	if errors.Is(err, errAnswered) {
		return nil
	}
	return err
}

// apply reads one event.
func (r *reply) apply(e perdure.Event) {
	r.seq = e.Seq
	switch f := e.Fact.(type) {
	case perdure.TurnStarted:
		r.texts, r.last = nil, ""
	case perdure.ReasonStarted:
		if slices.Contains(f.Inputs, r.answer.Message) {
			r.read, r.answer.Turn = true, e.Turn
		}
	case perdure.OutputCompleted:
		if text := f.Message.Text(); text != "" {
			if r.texts == nil {
				r.texts = map[perdure.MessageID]string{}
			}
			r.texts[f.Message.ID], r.last = text, f.Message.ID
		}
	case perdure.TurnCompleted:
		r.end(f.Usage, nil)
		if final, ok := r.texts[f.FinalMessageID]; ok && r.ended {
			r.answer.Text = final
		}
		if r.ended {
			r.answer.StopReason = f.StopReason
		}
	case perdure.TurnFailed:
		r.end(f.Usage, &TurnError{Turn: e.Turn, Code: f.Code, Text: f.Error, Retryable: f.Retryable})
	case perdure.TurnCanceled:
		r.end(f.Usage, &TurnError{Turn: e.Turn, Code: "canceled", Text: f.Reason})
	case perdure.TurnSealed:
		r.end(f.Usage, &TurnError{Turn: e.Turn, Code: f.Reason, Text: f.Detail})
	}
}

// end ends the turn. A turn that has not read the message answers nothing.
func (r *reply) end(used perdure.Usage, failed *TurnError) {
	if !r.read {
		return
	}
	r.ended, r.answer.Text, r.answer.Usage = true, r.texts[r.last], used
	if failed != nil {
		r.failed = failed
	}
}

// held lets the functions of the conversation decide, and reports whether the session still waits
// for a person.
func (r *reply) held(ctx context.Context) (bool, error) {
	if err := r.decide(ctx); err != nil {
		return false, err
	}
	s, err := r.Engine.Sessions().Get(ctx, r.Session)
	if err != nil || s.Hold == nil {
		return false, err
	}
	// Approvals that the functions have decided are closed by now, unless a new one has come since:
	// its own event is still to be read.
	return s.Hold.Code != HeldByApproval || r.OnApproval == nil, nil
}

// describe completes the answer with what continues, and what waits for a person.
func (r *reply) describe(ctx context.Context) error {
	s, err := r.Engine.Sessions().Get(ctx, r.Session)
	if err != nil {
		return err
	}
	r.answer.Hold = s.Hold
	if s.NeedsYou > 0 {
		if r.answer.Approvals, err = r.openApprovals(ctx); err != nil {
			return err
		}
	}
	if s.OpenTasks == 0 {
		return nil
	}
	tasks, err := r.Engine.Tasks().List(ctx, r.Session)
	for _, t := range tasks {
		switch {
		case asks(t):
			r.answer.Questions = append(r.answer.Questions, t)
		case t.State.Live() && t.Kind != perdure.KindMonitor && !t.AwaitsInput():
			r.answer.Running = append(r.answer.Running, t)
		}
	}
	return err
}

// decide calls the functions of the conversation for everything that waits for a person.
func (c Conversation) decide(ctx context.Context) error {
	if c.OnApproval != nil {
		open, err := c.openApprovals(ctx)
		if err != nil {
			return err
		}
		for _, a := range open {
			if err := c.decideApproval(ctx, a); err != nil {
				return err
			}
		}
	}
	if c.OnQuestion == nil {
		return nil
	}
	tasks, err := c.Engine.Tasks().List(ctx, c.Session)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if !asks(t) {
			continue
		}
		answer, err := c.OnQuestion(ctx, t)
		if err != nil {
			return err
		}
		answer.InReplyTo = t.InputRequest.ID
		if _, err := c.Engine.Tasks().Send(ctx, t.ID, answer); err != nil && !errors.Is(err, perdure.Conflict) {
			return err
		}
	}
	return nil
}

// decideApproval lets the program decide about an approval. If another decision came first, that
// one stands.
func (c Conversation) decideApproval(ctx context.Context, a perdure.Approval) error {
	v, err := c.OnApproval(ctx, a)
	if err != nil {
		return err
	}
	v.ArgsHash = a.ArgsHash
	if _, err := c.Engine.Approvals().Decide(ctx, a.ID, v); err != nil && !errors.Is(err, perdure.Conflict) {
		return err
	}
	return nil
}

func (c Conversation) openApprovals(ctx context.Context) ([]perdure.Approval, error) {
	return c.Engine.Approvals().List(ctx, ApprovalFilter{Session: c.Session, State: perdure.ApprovalOpen})
}

// asks reports whether a task waits for the answer to a question.
func asks(t perdure.Task) bool {
	return t.AwaitsInput() && t.InputRequest != nil && t.InputRequest.Kind != questionOfApproval
}

// questionOfApproval is the kind of a question that an approval answers, not a message.
const questionOfApproval = "approval"

// mayNeedPerson reports whether the session may wait for a person after an event.
func mayNeedPerson(f perdure.Fact) bool {
	switch f.(type) {
	case perdure.ApprovalRequested, perdure.ToolCallRequested, perdure.SessionAwaits, perdure.SessionPauses,
		perdure.BudgetPaused, perdure.BudgetExhausted,
		// a call that ends may leave only those that wait
		perdure.ToolCompleted, perdure.ToolDetached, perdure.ToolUnknown,
		perdure.TaskCreated, perdure.TaskUpdated:
		return true
	}
	return false
}
