package perdure

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Moment is what a decision needs besides the session: the time, and what only the store knows.
type Moment struct {
	Now           time.Time
	Secret        Secret // of the session, for derived ids (N4)
	TakeUps       int    // take-ups in a row without a new event
	NoProgress    int    // take-ups that seal a turn; 0 = off (TN1)
	ModelAttempts int    // model calls of a reason step; 0: DefaultModelAttempts
}

// Command is what must happen next. [Record] and [ClaimCall] are part of the commit that led to them; the
// others are carried out once it is durable. A command is due for as long as Decide returns it: an engine
// that has it in work already does nothing, and one that has not, because its predecessor died, takes it up.
type Command interface{ command() }

// Record is facts that follow from the state, without any act outside.
type Record struct{ Events []Event }

// ClaimCall is the intent to run a call: its claim and Event are one commit (LG1). RunCall follows.
type ClaimCall struct {
	Turn  TurnID
	Call  TurnCall
	Event Event
}

// CallModel asks the model and answers with reason.completed and what goes with it.
type CallModel struct {
	Turn      TurnID
	Exec      ExecID
	Message   MessageID
	Attempt   int
	NotBefore time.Time // zero: at once
	Stop      bool      // the turn ends: stop it, or complete it as interrupted
}

// RunCall runs a claimed call and answers with tool.completed, or takes it over (LG8).
type RunCall struct {
	Turn TurnID
	Call TurnCall
	Stop bool // the turn ends: cancel it, or settle it as interrupted; nothing is run again
}

// JudgeCall asks the policies anew about a call whose arguments a person replaced, and answers with tool.replanned.
type JudgeCall struct {
	Turn TurnID
	Call TurnCall
}

// Until says that nothing is due before a moment: then an approval or a client's call has run out of time.
type Until struct{ At time.Time }

// Rest says that nothing is left to do: let the session go.
type Rest struct{}

func (Record) command()    {}
func (ClaimCall) command() {}
func (CallModel) command() {}
func (RunCall) command()   {}
func (JudgeCall) command() {}
func (Until) command()     {}
func (Rest) command()      {}

// Decide says what must happen next: a pure function of the session and the moment (TN1). It returns no
// command when everything that is due is on its way.
func (s *Session) Decide(m Moment) []Command {
	t := s.Turn
	switch {
	case t == nil:
		return s.decideIdle(m)
	case t.Interrupt != nil && t.Interrupt.Seal != "":
		return s.windUp(m, TurnSealed{Reason: t.Interrupt.Seal, Detail: t.Interrupt.Reason, Usage: t.Usage})
	case t.Interrupt != nil && t.Interrupt.Code != "":
		return s.windUp(m, TurnFailed{Error: t.Interrupt.Reason, Code: t.Interrupt.Code, Retryable: true, Usage: t.Usage})
	case t.Interrupt != nil:
		return s.windUp(m, TurnCanceled{By: t.Interrupt.By, Reason: t.Interrupt.Reason, Usage: t.Usage})
	case m.NoProgress > 0 && m.TakeUps >= m.NoProgress && !s.Suspended(): // recorded first, so that the next crash does not forget it
		why := fmt.Sprintf("taken up %d times without a new event", m.TakeUps)
		return s.record([]Event{s.event(m, InterruptRequested{By: "runtime", Reason: why, Seal: "no_progress"})})
	}
	if s.halted() {
		return s.decideHalted(m)
	}
	return s.withheld(s.decideTurn(m))
}

// decideTurn says what is due in a turn that goes on.
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

// decideIdle starts the next turn for what waits, or lets the session rest (DL6, DL8, TN2).
func (s *Session) decideIdle(m Moment) []Command {
	start := TurnStarted{Model: s.Agent.Model}
	switch {
	case s.Stopped != nil:
		return []Command{Rest{}}
	case s.Halt != nil || s.Paused != nil:
		return s.decidePaused(m)
	case len(s.Queue) > 0:
		start.Cause, start.MessageID = CauseMessage, s.Queue[0].ID
		start.Model = orString(s.Queue[0].Model, start.Model)
	case s.wakes():
		start.Cause = CauseDelivery
	case s.Cut:
		start.Cause = CauseResume
	case s.wantsTurn() && !s.Held:
		return s.record([]Event{s.event(m, DeliveryHeld{Why: "continuations"})})
	default:
		return []Command{Rest{}}
	}
	start.TurnID = DeriveID[TurnID](m.Secret, m.Now, string(s.ID), strconv.FormatInt(s.Seq, 10))
	activated, started := s.event(m, SessionActivated{TurnID: start.TurnID}), s.event(m, start)
	activated.Turn, started.Turn = start.TurnID, start.TurnID
	return s.record([]Event{activated, started})
}

// decideReady asks the model next, after what has to be done first: a loop is told, the transcript is whole (TN16), and
// what is left out is summed up.
func (s *Session) decideReady(m Moment) []Command {
	if events := s.looping(m); len(events) > 0 {
		return s.record(events)
	}
	if broken := s.Breaches(); len(broken) > 0 {
		return []Command{RepairTranscript{Turn: s.Turn.ID, Breaches: broken}}
	}
	if fact, ok := s.tooLong(m); ok && s.sumsUp(fact) {
		return []Command{SumUp{Turn: s.Turn.ID, Fact: fact}}
	}
	return s.record(s.reasonEvents(m, time.Time{}))
}

// reasonEvents opens the next reason step at a safe point: what came home is delivered, what is queued
// enters the transcript, then the model is to be asked (DL3, DL10), at once or after a journaled wait.
func (s *Session) reasonEvents(m Moment, notBefore time.Time) []Event {
	var events []Event
	for _, id := range s.Ready {
		events = append(events, s.event(m, s.delivery(m, s.Tasks[id])))
	}
	t := s.Turn
	if fact, ok := s.tooLong(m); ok {
		events = append(events, s.event(m, fact))
	}
	step := ReasonStarted{Iteration: t.Iteration + 1, Attempt: 1, Model: t.Model, NotBefore: notBefore}
	for _, notice := range s.Notices {
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

// decideReasoned says what follows an answer, or the failure to get one.
func (s *Session) decideReasoned(m Moment) []Command {
	t := s.Turn
	last := t.Last
	if !last.Success {
		return s.decideFailed(m)
	}
	steered := len(s.Notices) > 0 || s.wakes()
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

// decideFailed retries a reason step that failed, after a journaled wait, or ends the turn (TN21, TN22).
func (s *Session) decideFailed(m Moment) []Command {
	t := s.Turn
	last := t.Last
	if t.CutOff > 0 && !t.Open {
		return s.decideCutOff(m)
	}
	empty := last.Code == CodeEmptyAnswer
	if last.Code == CodeTooLarge && !t.Shrunk {
		fact, ok := s.compact(m, tokens(s.Context())/2)
		if ok && s.sumsUp(fact) {
			again := s.askAgain(m)
			return []Command{SumUp{Turn: t.ID, Fact: fact, Again: &again}}
		}
		if ok {
			return s.record([]Event{s.event(m, fact), s.event(m, s.askAgain(m))})
		}
	}
	again := last.Retryable && t.Attempt < orDefault(m.ModelAttempts, DefaultModelAttempts)
	if empty {
		again = t.Empties < 2 // asked once more, whatever else was retried
	}
	if again {
		step := s.askAgain(m)
		if !empty && last.Code != CodeBrokenOff { // what broke off with us needs no rest
			step.NotBefore = m.Now.Add(RetryDelay(t.Attempt, last.RetryAfter, string(t.Exec)))
		}
		return s.record([]Event{s.event(m, step)})
	}
	if empty {
		return s.record(s.endEmpty(m))
	}
	return s.record(append(s.closeOutput(m), s.failTurn(m)...))
}

// askAgain is one more attempt of the reason step.
func (s *Session) askAgain(m Moment) ReasonStarted {
	t := s.Turn
	step := ReasonStarted{MessageID: t.Message, Iteration: t.Iteration, Attempt: t.Attempt + 1, Model: t.Model}
	step.ExecID = s.execID(m, step)
	return step
}

// decideCutOff goes on after an answer that broke off with text, which somebody has seen and which therefore
// stands (TN21): with one more reason step, never twice in a row (TN20).
func (s *Session) decideCutOff(m Moment) []Command {
	t := s.Turn
	if !t.Last.Retryable || t.CutOff > 1 || t.Iteration >= s.Agent.maxIterations() {
		return s.record(s.failTurn(m))
	}
	notBefore := m.Now.Add(RetryDelay(t.Attempt, t.Last.RetryAfter, string(t.Exec)))
	if t.Last.Code == CodeBrokenOff {
		notBefore = time.Time{}
	}
	return s.record(s.reasonEvents(m, notBefore))
}

// failTurn ends the turn with the failure of its last reason step.
func (s *Session) failTurn(m Moment) []Event {
	t := s.Turn
	last := t.Last
	return s.endTurn(m, TurnFailed{Error: last.Error, Code: last.Code, Retryable: last.Retryable, Usage: t.Usage})
}

// endEmpty completes the turn with an empty final message (TN22).
func (s *Session) endEmpty(m Moment) []Event {
	t := s.Turn
	final := Message{ID: t.Message, Role: RoleAgent, At: m.Now}
	done := s.completed(m, StopEnd)
	done.FinalMessageID, done.FinalPreview = t.Message, ""
	return append([]Event{s.event(m, OutputCompleted{Message: final, FinishReason: "stop"})}, s.endTurn(m, done)...)
}

// decideActing starts what may start, asks where somebody must be asked, answers what may not start, and closes the
// step when every call has a result.
func (s *Session) decideActing(m Moment) []Command {
	if events := slices.Concat(s.refusals(m), s.expire(m), s.overdue(m), s.questions(m)); len(events) > 0 {
		return s.record(events)
	}
	t := s.Turn
	var commands []Command
	var until time.Time
	done := true
	for _, c := range t.Calls {
		done = done && c.Phase == CallDone
		switch c.Phase {
		case CallInWork:
			commands = append(commands, RunCall{Turn: t.ID, Call: c})
		case CallReplanning:
			commands = append(commands, JudgeCall{Turn: t.ID, Call: c})
		default:
			until = earlier(until, s.runsOut(c))
		}
	}
	for _, c := range startable(t.Calls, s.Agent.maxParallelCalls(), s.Agent.SerialCalls) {
		started := s.event(m, ToolStarted{CallID: c.ID, Name: c.Name, Lane: c.lane(), Class: c.Class, Fingerprint: c.Fingerprint, DisplayName: c.DisplayName})
		started.Call = c.ID
		commands = append(commands, ClaimCall{Turn: t.ID, Call: c, Event: started})
	}
	if !done {
		if !until.IsZero() {
			commands = append(commands, Until{At: until})
		}
		return commands
	}
	events := []Event{s.event(m, s.actCompleted(m))}
	switch {
	case t.Violation:
		events = append(events, s.endTurn(m, TurnFailed{Error: "a call came again with other content", Code: CodeDeterminism, Usage: t.Usage})...)
	case t.Iteration >= s.Agent.maxIterations():
		events = append(events, s.endTurn(m, s.completed(m, StopMaxIterations))...)
	}
	return s.record(events)
}

// refusals answers the planned calls that never start: refused when they were planned, one too many in
// their step (TN9), or asked for when the turn may not go on (TN1).
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
			events = append(events, s.answer(m, c, Unpaid(c.ID, s.Halt.Why)))
		}
	}
	return events
}

// questions asks a person about the calls that need it, and the client for those that are its own. All calls of a step
// are asked about at once, whatever runs meanwhile (AP7, AP11).
func (s *Session) questions(m Moment) []Event {
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

// overdue answers the calls that the client did not answer in time (AP11).
func (s *Session) overdue(m Moment) []Event {
	var events []Event
	for _, c := range s.Turn.Calls {
		if at := s.runsOut(c); c.Phase == CallRequested && !at.IsZero() && !m.Now.Before(at) {
			events = append(events, s.answer(m, c, Refused(c.ID, ErrorTimeout, fmt.Sprintf("Timed out after %s", c.Deadline))))
		}
	}
	return events
}

// runsOut is when nobody waits any longer for the answer that a call needs; zero: never.
func (s *Session) runsOut(c TurnCall) time.Time {
	switch {
	case c.Phase == CallAsking:
		return s.Approvals[c.Approval].ExpiresAt
	case c.Phase == CallRequested && c.Deadline > 0:
		return c.StartedAt.Add(c.Deadline)
	}
	return time.Time{}
}

// earlier returns the earlier of two moments; a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// windUp ends a turn early: what is in work is stopped first, what never started is answered, then the
// turn closes with end (RC8).
func (s *Session) windUp(m Moment, end Fact) []Command {
	t := s.Turn
	if t.Phase == PhaseReasoning {
		return []Command{CallModel{Turn: t.ID, Exec: t.Exec, Message: t.Message, Attempt: t.Attempt, Stop: true}}
	}
	var commands []Command
	var events []Event
	for _, c := range t.Calls {
		switch c.Phase {
		case CallInWork:
			commands = append(commands, RunCall{Turn: t.ID, Call: c, Stop: true})
		case CallAsking: // a late answer finds it closed (AP8)
			closed := ApprovalResolved{Approval: c.Approval, State: ApprovalDenied, By: t.Interrupt.By, Note: TextInterrupted}
			events = append(events, s.resolution(m, c, closed), s.answer(m, c, Refused(c.ID, ErrorInterrupted, TextInterrupted)))
		case CallPlanned, CallReplanning, CallRequested:
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

// closeOutput completes a message that was started and never answered, so that its start has an end (EV5).
func (s *Session) closeOutput(m Moment) []Event {
	if !s.Turn.Open {
		return nil
	}
	empty := Message{ID: s.Turn.Message, Role: RoleAgent, Interrupted: true, At: m.Now}
	return []Event{s.event(m, OutputCompleted{Message: empty, Interrupted: true, FinishReason: "interrupted"})}
}

// endTurn closes the turn and idles the session in one commit (TN2).
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
		FinalMessageID: t.Final, FinalPreview: cut(t.FinalText, 2000),
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

// record is the one command for facts without an act.
func (s *Session) record(events []Event) []Command { return []Command{Record{Events: events}} }

// event wraps a fact of the runtime's own.
func (s *Session) event(m Moment, fact Fact) Event {
	e := Event{At: m.Now.UTC().Truncate(time.Microsecond), Session: s.ID, Actor: "runtime", Fact: fact}
	if s.Turn != nil {
		e.Turn = s.Turn.ID
	}
	return e
}

// cut shortens text to n characters.
func cut(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
