package perdure

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/perdure/perdure/internal/shorten"
)

// Decide returns what is due next. It is a pure function of the session and the moment. It returns
// no command while everything that is due has already been started.
func (s *Session) Decide(m Moment) []Command {
	t := s.Turn
	switch {
	case t == nil:
		return s.decideIdle(m)
	case t.Interrupt != nil && t.Interrupt.Seal != "":
		return s.endTurnEarly(m, TurnSealed{Reason: t.Interrupt.Seal, Detail: t.Interrupt.Reason, Usage: t.Usage})
	case t.Interrupt != nil && t.Interrupt.Code != "":
		return s.endTurnEarly(m, TurnFailed{Error: t.Interrupt.Reason, Code: t.Interrupt.Code, Retryable: true, Usage: t.Usage})
	case t.Interrupt != nil:
		return s.endTurnEarly(m, TurnCanceled{By: t.Interrupt.By, Reason: t.Interrupt.Reason, Usage: t.Usage})
	// This is recorded first, so that a crash before the end cannot lose it.
	case m.NoProgress > 0 && m.Resumes >= m.NoProgress && !s.Suspended():
		why := fmt.Sprintf("resumed %d times without a new event", m.Resumes)
		return s.record([]Event{s.event(m, InterruptRequested{By: "runtime", Reason: why, Seal: "no_progress"})})
	}
	if s.budgetEndsTurn() {
		return s.decideHalted(m)
	}
	return s.withoutNewWork(s.decideTurn(m))
}

// decideTurn returns what is due in a running turn that nobody ends early.
func (s *Session) decideTurn(m Moment) []Command {
	switch t := s.Turn; t.Phase {
	case PhaseReady:
		return s.decideReady(m)
	case PhaseReasoning:
		return []Command{CallModel{Turn: t.ID, Exec: t.Exec, Message: t.Message, Attempt: t.Attempt, NotBefore: t.NotBefore}}
	case PhaseReasoned:
		return s.decideReasoned(m)
	default:
		return s.decideActing(m)
	}
}

// decideIdle starts the next turn if something waits for one. Otherwise the session is released.
func (s *Session) decideIdle(m Moment) []Command {
	start := TurnStarted{Model: s.Agent.Model}
	switch {
	case s.Stopped != nil:
		return []Command{ReleaseSession{}}
	case s.Halt != nil || s.Paused != nil:
		return s.decidePaused(m)
	case len(s.Queue) > 0:
		start.Cause, start.MessageID = CauseMessage, s.Queue[0].ID
		start.Model = cmp.Or(s.Queue[0].Model, start.Model)
	case s.startsAutomaticTurn():
		start.Cause = CauseDelivery
	case s.CutByBudget:
		start.Cause = CauseResume
	case s.requestsTurn() && !s.DeliveryHeld:
		return s.record([]Event{s.event(m, DeliveryHeld{Why: "continuations"})})
	default:
		return []Command{ReleaseSession{}}
	}
	start.TurnID = DeriveID[TurnID](m.Secret, m.Now, string(s.ID), strconv.FormatInt(s.Seq, 10))
	activated, started := s.event(m, SessionActivated{TurnID: start.TurnID}), s.event(m, start)
	activated.Turn, started.Turn = start.TurnID, start.TurnID
	return s.record([]Event{activated, started})
}

// decideReady starts the next reason step. Before that it reports a loop, repairs the transcript,
// and has the model summarise what will be left out of the context.
func (s *Session) decideReady(m Moment) []Command {
	if events := s.reportLoop(m); len(events) > 0 {
		return s.record(events)
	}
	if broken := s.Breaches(); len(broken) > 0 {
		return []Command{RepairTranscript{Turn: s.Turn.ID, Breaches: broken}}
	}
	if fact, ok := s.compactionDue(m); ok && s.needsSummary(fact) {
		return []Command{SummariseContext{Turn: s.Turn.ID, Fact: fact}}
	}
	return s.record(s.reasonEvents(m, time.Time{}))
}

// reasonEvents opens the next reason step. This is the safe point of the turn: undelivered results
// and queued messages enter the transcript here, before the model call. notBefore delays that call;
// zero means at once.
func (s *Session) reasonEvents(m Moment, notBefore time.Time) []Event {
	var events []Event
	for _, id := range s.Undelivered {
		events = append(events, s.event(m, s.delivery(m, s.Tasks[id])))
	}
	t := s.Turn
	if fact, ok := s.compactionDue(m); ok {
		events = append(events, s.event(m, fact))
	}
	step := ReasonStarted{Iteration: t.Iteration + 1, Attempt: 1, Model: t.Model, NotBefore: notBefore}
	for _, notice := range s.Notifications {
		step.Inputs = append(step.Inputs, notice.ID)
	}
	for _, message := range s.Queue {
		if message.ID == t.Input || message.Mode == ModeSteer || message.Mode == "" {
			step.Inputs = append(step.Inputs, message.ID)
		}
	}
	step.ExecID = s.execID(m, step)
	step.MessageID = DeriveID[MessageID](m.Secret, m.Now, string(step.ExecID))
	return append(events, s.event(m, step), s.event(m, OutputStarted{MessageID: step.MessageID, Model: step.Model}))
}

func (s *Session) execID(m Moment, step ReasonStarted) ExecID {
	return DeriveID[ExecID](m.Secret, m.Now, string(s.Turn.ID), strconv.Itoa(step.Iteration), strconv.Itoa(step.Attempt))
}

// decideReasoned decides after an answer of the model, or after the failure to get one.
func (s *Session) decideReasoned(m Moment) []Command {
	t := s.Turn
	last := t.Last
	if !last.Success {
		return s.decideFailed(m)
	}
	steered := len(s.Notifications) > 0 || s.startsAutomaticTurn()
	for _, message := range s.Queue {
		steered = steered || message.Mode == ModeSteer || message.Mode == ""
	}
	switch {
	case steered && t.Iteration < s.Agent.maxIterations():
		return s.record(s.reasonEvents(m, time.Time{}))
	case last.Refusal:
		return s.record(s.endTurn(m, s.completed(m, StopRefusal)))
	default:
		return s.record(s.endTurn(m, s.completed(m, StopEnd)))
	}
}

// decideFailed retries a failed reason step after a journaled wait, or ends the turn.
func (s *Session) decideFailed(m Moment) []Command {
	t := s.Turn
	last := t.Last
	if t.BrokenAnswers > 0 && !t.OutputOpen {
		return s.decideCutOff(m)
	}
	empty := last.Code == CodeEmptyAnswer
	if last.Code == CodeTooLarge && !t.CompactedOnce {
		fact, ok := s.compact(m, tokens(s.Context())/2)
		if ok && s.needsSummary(fact) {
			again := s.askAgain(m)
			return []Command{SummariseContext{Turn: t.ID, Fact: fact, NextAttempt: &again}}
		}
		if ok {
			return s.record([]Event{s.event(m, fact), s.event(m, s.askAgain(m))})
		}
	}
	again := last.Retryable && t.Attempt < orDefault(m.ModelAttempts, DefaultModelAttempts)
	if empty {
		again = t.EmptyAnswers < 2 // one more attempt, independent of other retries
	}
	if again {
		step := s.askAgain(m)
		if !empty {
			step.Attempts = orDefault(m.ModelAttempts, DefaultModelAttempts)
		}
		if !empty && last.Code != CodeBrokenOff { // the engine broke off, not the provider: no wait is needed
			step.NotBefore = m.Now.Add(RetryDelay(t.Attempt, last.RetryAfter, string(t.Exec)))
		}
		return s.record([]Event{s.event(m, step)})
	}
	if empty {
		return s.record(s.endEmpty(m))
	}
	return s.record(append(s.closeOutput(m), s.failTurn(m)...))
}

// askAgain returns the next attempt of the reason step.
func (s *Session) askAgain(m Moment) ReasonStarted {
	t := s.Turn
	step := ReasonStarted{MessageID: t.Message, Iteration: t.Iteration, Attempt: t.Attempt + 1, Model: t.Model}
	step.ExecID = s.execID(m, step)
	return step
}

// decideCutOff continues after an answer that broke off with text. A client may have seen that
// text, so it stays in the transcript and one more reason step follows, but never twice in a row.
func (s *Session) decideCutOff(m Moment) []Command {
	t := s.Turn
	if !t.Last.Retryable || t.BrokenAnswers > 1 || t.Iteration >= s.Agent.maxIterations() {
		return s.record(s.failTurn(m))
	}
	notBefore := m.Now.Add(RetryDelay(t.Attempt, t.Last.RetryAfter, string(t.Exec)))
	if t.Last.Code == CodeBrokenOff {
		notBefore = time.Time{}
	}
	return s.record(s.reasonEvents(m, notBefore))
}

// failTurn ends the turn with the error of its last reason step.
func (s *Session) failTurn(m Moment) []Event {
	t := s.Turn
	last := t.Last
	return s.endTurn(m, TurnFailed{Error: last.Error, Code: last.Code, Retryable: last.Retryable, Usage: t.Usage})
}

// endEmpty completes the turn with an empty final message.
func (s *Session) endEmpty(m Moment) []Event {
	t := s.Turn
	final := Message{ID: t.Message, Role: RoleAgent, At: m.Now}
	done := s.completed(m, StopEnd)
	done.FinalMessageID, done.FinalPreview = t.Message, ""
	return append([]Event{s.event(m, OutputCompleted{Message: final, FinishReason: "stop"})}, s.endTurn(m, done)...)
}

// decideActing decides about the calls of an act step: it answers the ones that must not start,
// asks for approvals and client answers, and starts the others. When every call has a result it
// ends the step.
//
// All answers and questions are recorded in one commit before any call starts, so the commands for
// starting calls are computed from a state in which nothing else is pending.
func (s *Session) decideActing(m Moment) []Command {
	if events := slices.Concat(s.refusals(m), s.expire(m), s.clientTimeouts(m), s.requestAnswers(m)); len(events) > 0 {
		return s.record(events)
	}
	t := s.Turn
	var commands []Command
	var until time.Time
	done := true
	for _, c := range t.Calls {
		done = done && c.Phase == CallDone
		switch c.Phase {
		case CallExecuting:
			commands = append(commands, RunCall{Turn: t.ID, Call: c, Detach: c.DetachIntent > 0})
		case CallReplanning:
			commands = append(commands, ReplanCall{Turn: t.ID, Call: c})
		default:
			until = earlier(until, s.answerDeadline(c))
		}
	}
	for _, c := range startable(t.Calls, s.Agent.maxParallelCalls(), s.Agent.SerialCalls) {
		started := s.event(m, ToolStarted{CallID: c.ID, Name: c.Name, Lane: c.lane(), Class: c.Class, Fingerprint: c.Fingerprint, DisplayName: c.DisplayName,
			Narration: c.ownNarration()})
		started.Call = c.ID
		commands = append(commands, ClaimCall{Turn: t.ID, Call: c, Event: started})
	}
	if !done {
		if !until.IsZero() {
			commands = append(commands, WaitUntil{At: until})
		}
		return commands
	}
	events := []Event{s.event(m, s.actCompleted(m))}
	switch {
	case t.DeterminismViolation:
		events = append(events, s.endTurn(m, TurnFailed{Error: "a call id was reused with different content",
			Code: CodeDeterminism, Usage: t.Usage})...)
	case t.Iteration >= s.Agent.maxIterations():
		events = append(events, s.endTurn(m, s.completed(m, StopMaxIterations))...)
	}
	return s.record(events)
}

// refusals answers the planned calls that never start: refused by the plan, beyond the limit of one
// step, beyond the turn's iterations, or without a budget.
func (s *Session) refusals(m Moment) []Event {
	t := s.Turn
	var events []Event
	for i, c := range t.Calls {
		if c.Phase != CallPlanned {
			continue
		}
		switch {
		case t.Iteration >= s.Agent.maxIterations():
			events = append(events, s.answer(m, c, Refused(c.ID, ErrorRejected, TextIterations)))
		case i >= MaxCallsPerStep:
			events = append(events, s.answer(m, c, Refused(c.ID, ErrorRejected, TextTooMany)))
		case c.Refusal != nil:
			events = append(events, s.answer(m, c, *c.Refusal))
		case s.Halt != nil:
			events = append(events, s.answer(m, c, RefusedByBudget(c.ID, s.Halt.Why)))
		}
	}
	return events
}

// requestAnswers asks a person about the calls that need an approval, and the client for the calls
// that it must answer. All calls of a step are asked about at once, even while others are running.
func (s *Session) requestAnswers(m Moment) []Event {
	if s.Paused != nil {
		return nil
	}
	t := s.Turn
	var events []Event
	var requested []CallID
	for i, c := range t.Calls {
		if c.Phase != CallPlanned || c.Refusal != nil || i >= MaxCallsPerStep || t.Iteration >= s.Agent.maxIterations() {
			continue
		}
		var asked Event
		switch {
		case len(c.Permissions) > 0:
			asked = s.event(m, s.approvalRequest(m, c))
		case c.ClientSide:
			asked = s.event(m, ToolCallRequested{CallID: c.ID, Name: c.Name, Args: c.Args})
			requested = append(requested, c.ID)
		default:
			continue
		}
		asked.Call = c.ID
		events = append(events, asked)
	}
	if len(requested) > 0 {
		events = append(events, s.event(m, SessionAwaits{TurnID: t.ID, CallIDs: requested}))
	}
	return events
}

// clientTimeouts answers the calls that the client did not answer in time.
func (s *Session) clientTimeouts(m Moment) []Event {
	var events []Event
	for _, c := range s.Turn.Calls {
		if at := s.answerDeadline(c); c.Phase == CallAwaitingClient && !at.IsZero() && !m.Now.Before(at) {
			events = append(events, s.answer(m, c, Refused(c.ID, ErrorTimeout, fmt.Sprintf("Timed out after %s", c.AnswerTimeout))))
		}
	}
	return events
}

// answerDeadline is when the wait for an approval or for the client ends; zero: never, or the call
// does not wait.
func (s *Session) answerDeadline(c TurnCall) time.Time {
	switch {
	case c.Phase == CallAwaitingApproval:
		return s.Approvals[c.Approval].ExpiresAt
	case c.Phase == CallAwaitingClient && c.AnswerTimeout > 0:
		return c.StartedAt.Add(c.AnswerTimeout)
	}
	return time.Time{}
}

// earlier returns the earlier of two times; the zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// endTurnEarly ends a turn early. Running calls are stopped first, then calls that never started
// are answered, and then the turn closes with end. Each of these is a commit of its own, so after a
// crash the same function continues with what is left.
func (s *Session) endTurnEarly(m Moment, end Fact) []Command {
	t := s.Turn
	if t.Phase == PhaseReasoning {
		return []Command{CallModel{Turn: t.ID, Exec: t.Exec, Message: t.Message, Attempt: t.Attempt, Stop: true}}
	}
	var commands []Command
	var events []Event
	for _, c := range t.Calls {
		switch c.Phase {
		case CallExecuting:
			commands = append(commands, RunCall{Turn: t.ID, Call: c, Stop: true, Force: s.Stopped != nil && s.Stopped.Force})
		case CallAwaitingApproval: // a later decision finds the approval closed
			closed := ApprovalResolved{Approval: c.Approval, State: ApprovalDenied, By: t.Interrupt.By, Note: TextInterrupted}
			events = append(events, s.resolution(m, c, closed), s.answer(m, c, Refused(c.ID, ErrorInterrupted, TextInterrupted)))
		case CallPlanned, CallReplanning, CallAwaitingClient:
			events = append(events, s.answer(m, c, Refused(c.ID, ErrorInterrupted, TextInterrupted)))
		}
	}
	if len(events) > 0 {
		return append(s.record(events), commands...)
	}
	if len(commands) > 0 {
		return commands
	}
	if t.Phase == PhaseActing {
		events = append(events, s.event(m, s.actCompleted(m)))
	}
	events = append(events, s.closeOutput(m)...)
	return s.record(append(events, s.endTurn(m, end)...))
}

// closeOutput completes a message that was started and never answered, so that every start has an
// end.
func (s *Session) closeOutput(m Moment) []Event {
	if !s.Turn.OutputOpen {
		return nil
	}
	empty := Message{ID: s.Turn.Message, Role: RoleAgent, Interrupted: true, At: m.Now}
	return []Event{s.event(m, OutputCompleted{Message: empty, Interrupted: true, FinishReason: "interrupted"})}
}

// endTurn closes the turn and idles the session; both events are one commit.
func (s *Session) endTurn(m Moment, end Fact) []Event {
	t := s.Turn
	return []Event{
		s.event(m, end),
		s.event(m, SessionIdled{TurnID: t.ID, Iterations: t.Iteration, Usage: s.Usage}),
	}
}

func (s *Session) completed(m Moment, why StopReason) TurnCompleted {
	t := s.Turn
	return TurnCompleted{
		Iterations: t.Iteration, DurationMS: max(m.Now.Sub(t.StartedAt), 0).Milliseconds(), Usage: t.Usage,
		FinalMessageID: t.Final, FinalPreview: shorten.Chars(t.FinalText, 2000),
		ToolCallCount: t.ToolCallCount + len(t.Calls), LLMCallCount: t.LLMCallCount, StopReason: why,
	}
}

func (s *Session) actCompleted(m Moment) ActCompleted {
	done := ActCompleted{DurationMS: max(m.Now.Sub(s.Turn.ActAt), 0).Milliseconds()}
	for _, c := range s.Turn.Calls {
		if c.Result.IsError() {
			done.ErrorCount++
		} else {
			done.SuccessCount++
		}
	}
	return done
}

// answer gives a call that never started its result.
func (s *Session) answer(m Moment, c TurnCall, result ToolResult) Event {
	e := s.event(m, ToolCompleted{CallID: c.ID, Name: c.Name, Status: result.Status(), Result: result})
	e.Call = c.ID
	return e
}

// record returns the one command that records events.
func (s *Session) record(events []Event) []Command { return []Command{Record{Events: events}} }

// event wraps a fact of the runtime.
func (s *Session) event(m Moment, fact Fact) Event {
	e := Event{At: m.Now.UTC().Truncate(time.Microsecond), Session: s.ID, Actor: "runtime", Fact: fact}
	if s.Turn != nil {
		e.Turn = s.Turn.ID
	}
	return e
}
