package perdure

import (
	"fmt"
	"slices"
	"time"
)

// Apply folds the next event of the journal into the session. An event out of order, or one that cannot
// follow what came before, is Conflict, and the session must not be used any more.
// Facts of unknown types move Seq and change nothing else (EV10).
func (s *Session) Apply(e Event) error {
	if e.Seq != s.Seq+1 {
		return fmt.Errorf("%w: session %s stands at seq %d and is given %d", Conflict, s.ID, s.Seq, e.Seq)
	}
	e.At = e.At.UTC().Truncate(time.Microsecond) // as the journal keeps it, so that a live fold is a replayed one
	if s.Paused != nil {
		s.Status = s.Under
	}
	if err := s.apply(e); err != nil {
		return fmt.Errorf("apply seq %d, %s: %w", e.Seq, e.Type(), err)
	}
	s.Under = ""
	if s.Paused != nil {
		s.Under, s.Status = s.Status, SessionPaused
	}
	s.Seq = e.Seq
	s.UpdatedAt = e.At
	return nil
}

func (s *Session) apply(e Event) error {
	switch f := e.Fact.(type) {
	case SessionCreated:
		s.Agent, s.Title, s.Labels, s.Status, s.CreatedAt, s.Lineage = f.Agent, f.Agent.Title, f.Agent.Labels, SessionStarted, e.At, f.Lineage
	case SessionForked:
		return s.fork(f)
	case SessionUpdated:
		s.Title, s.Labels = orString(f.Title, s.Title), s.Labels.With(f.Labels)
	case SessionActivated:
		s.Status = SessionActive
	case SessionIdled:
		s.Status = s.resting()
	case BudgetWarning, BudgetPaused, BudgetExhausted, BudgetResumed:
		s.applyBudget(f)
	case SessionStopped:
		s.stop(f)
	case SessionPauses:
		s.pause(f, e.At)
	case SessionResumes:
		s.resume()
	case MessageReceived:
		s.receive(f, e.Trace)
	case DeliveryHeld:
		s.Held = true
	case TaskCreated:
		return s.setTask(f.Task)
	case TaskUpdated:
		if f.Task.State != TaskAwaitingInput {
			s.dropQuestions(f.Task.ID)
		}
		return s.setTask(f.Task)
	case TaskDelivered:
		s.Transcript = append(s.Transcript, f.Message)
		s.delivered(f.TaskIDs, DeliveredInjected)
	case TaskPruned:
		s.forget(f.TaskIDs)
	case TranscriptRepaired:
		return s.repair(f)
	case LoopDetected:
		if s.Turn != nil {
			s.Turn.Loop.Told = s.Turn.Loop.Found.Sign
		}
		if len(f.Message.Parts) > 0 {
			s.Notices = append(s.Notices, f.Message)
		}
	case ContextCompacted:
		s.Compacted = f.Compaction
		if s.Turn != nil {
			s.Turn.Shrunk = s.Turn.Shrunk || s.Turn.Last.Code == CodeTooLarge
		}
	case ApprovalRequested:
		return s.request(f)
	case ApprovalResolved:
		s.resolve(f)
	case TaskMessageSent:
		if len(f.Notice.Parts) > 0 {
			s.Notices = append(s.Notices, f.Notice)
			s.Nudged = s.Nudged || f.Wake == WakeContinue
		}
	case SchedulePaused:
		if len(f.Notice.Parts) > 0 {
			s.Notices = append(s.Notices, f.Notice)
		}
	case ToolUnknown:
		s.Unknown[f.CallID] = f.Name
	case ToolResolved:
		delete(s.Unknown, f.CallID)
		s.Notices = append(s.Notices, f.Message)
	case TurnStarted:
		return s.startTurn(f, e)
	default:
		return s.applyTurn(e)
	}
	return nil
}

// fork takes over what was said elsewhere. It is the beginning of a conversation, so nothing may have been said here.
func (s *Session) fork(f SessionForked) error {
	if s.Seq != 1 {
		return fmt.Errorf("%w: the session has begun, and cannot become a fork", Conflict)
	}
	s.Transcript, s.Compacted = slices.Clone(f.Transcript), f.Compaction
	for _, id := range f.UsedCalls {
		s.UsedCalls.put(id, true)
	}
	return nil
}

// applyTurn folds the facts that only a running turn can have.
func (s *Session) applyTurn(e Event) error {
	if _, unknown := e.Fact.(UnknownFact); unknown {
		return nil
	}
	t := s.Turn
	if _, intent := e.Fact.(InterruptRequested); t == nil && intent {
		return nil // the turn ended before the wish was committed: nothing is left to interrupt
	}
	switch e.Fact.(type) {
	case TaskCancelRequested, TaskCancelReceipt, TaskReattached, TaskResolved, TaskMessageReceived, OutputReplaced, ToolTakenOver,
		ToolDetached, AuditRecorded, ResourceUpdated, LeaseExpired, LeaseCleanupFailed, FileWritten, RequestDenied,
		ScheduleCreated, ScheduleFired, ScheduleSkipped, ScheduleCanceled:
		return nil // they tell the story; the task's snapshot tells the state
	}
	if bill, ok := e.Fact.(Generation); ok && bill.Tool != "" { // tools work also where no turn runs
		s.bill(bill.Usage, e.Turn)
		return nil
	}
	if t == nil {
		return fmt.Errorf("%w: no turn runs", Conflict)
	}
	switch f := e.Fact.(type) {
	case InterruptRequested:
		if t.Interrupt == nil { // the first wish stands
			t.Interrupt = &f
		}
	case ReasonStarted:
		s.startReason(f)
	case OutputStarted:
		t.Open = true
	case OutputCompleted:
		s.completeOutput(f)
	case ReasonCompleted:
		t.Phase, t.Last = PhaseReasoned, f
		if f.Success {
			t.CutOff = 0
		}
		if f.Code == CodeEmptyAnswer {
			t.Empties++
		}
	case Generation:
		s.bill(f.Usage, t.ID)
	case ReasonRecovered:
		s.recover(f)
	case ActStarted:
		return s.startAct(f, e)
	case ToolStarted:
		return t.startCall(f, e)
	case ToolCompleted:
		return s.completeCall(f)
	case ToolCallRequested:
		return t.requestCall(f, e)
	case CallReplanned:
		return s.replan(f)
	case SessionAwaits:
		s.Status = SessionWaiting
	case ActCompleted:
		s.completeAct()
	case TurnCompleted, TurnFailed, TurnCanceled, TurnSealed:
		s.Turn = nil
		if sealed, ok := f.(TurnSealed); ok {
			s.sealed(sealed)
		}
		if s.Lineage != nil { // its parent asks
			end := t.endOf(f)
			s.LastTurn = &end
		}
	default:
		return fmt.Errorf("%w fact %T", Invalid, e.Fact)
	}
	return nil
}

// bill adds to what the session used, and to what a turn of it did, while that runs.
func (s *Session) bill(u Usage, turn TurnID) {
	s.Usage = s.Usage.Add(u)
	if s.Turn != nil && s.Turn.ID == turn {
		s.Turn.Usage = s.Turn.Usage.Add(u)
	}
}

func (s *Session) receive(f MessageReceived, trace string) {
	if _, twice := s.Keys.Get(f.Key); twice && f.Key != "" {
		return // one message, however often it was sent (DL12)
	}
	m := f.Message
	m.Mode = f.Mode
	s.Queue = append(s.Queue, m)
	if trace != "" {
		if s.Traces == nil {
			s.Traces = map[MessageID]string{}
		}
		s.Traces[m.ID] = trace
	}
	if f.Key != "" {
		s.Keys.put(f.Key, m.ID)
	}
	if f.Source == "" || f.Source == "user" || f.Source == "api" {
		s.Continuations, s.Held, s.Stopped = 0, false, nil // a person spoke (DL8)
	}
	if f.Mode == ModeInterrupt && s.Turn != nil && s.Turn.Interrupt == nil {
		s.Turn.Interrupt = &InterruptRequested{By: orString(f.Source, "user"), Reason: "a new message"}
	}
}

func (s *Session) startTurn(f TurnStarted, e Event) error {
	if s.Turn != nil {
		return fmt.Errorf("%w: turn %s still runs", Conflict, s.Turn.ID)
	}
	s.Turn = &Turn{ID: f.TurnID, Cause: f.Cause, Input: f.MessageID, Model: f.Model, Phase: PhaseReady, StartedAt: e.At, Trace: s.Traces[f.MessageID]}
	s.Cut = false
	if f.Cause == CauseDelivery {
		s.Continuations++
	}
	return nil
}

// startReason opens a reason step; the inputs that it names enter the transcript in its order.
func (s *Session) startReason(f ReasonStarted) {
	t := s.Turn
	t.Phase, t.Exec, t.Message, t.Attempt, t.NotBefore = PhaseReasoning, f.ExecID, f.MessageID, f.Attempt, f.NotBefore
	if f.Iteration != t.Iteration {
		t.Iteration, t.Empties = f.Iteration, 0
	}
	t.LLMCallCount++
	s.Nudged = false
	s.Sound = max(s.Sound, len(s.Transcript)) // it was looked at before, and inputs have no calls
	for _, id := range f.Inputs {
		s.take(&s.Notices, id)
		s.take(&s.Queue, id)
	}
}

// take moves a waiting message into the transcript.
func (s *Session) take(from *[]Message, id MessageID) {
	i := slices.IndexFunc(*from, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return
	}
	s.Transcript = append(s.Transcript, (*from)[i])
	delete(s.Traces, id)
	*from = slices.Delete(*from, i, i+1)
}

func (s *Session) completeOutput(f OutputCompleted) {
	t := s.Turn
	t.Open = false
	if len(f.Message.Parts) == 0 {
		if !f.Interrupted { // an empty answer is the final one (TN22)
			t.Final, t.FinalText = f.Message.ID, ""
		}
		return
	}
	s.Transcript = append(s.Transcript, f.Message)
	for _, c := range f.Message.Calls() {
		s.UsedCalls.put(c.ID, true)
	}
	t.Final, t.FinalText = f.Message.ID, f.Message.Text()
}

// recover notes an answer that broke off, and what the model is to be told of it (TN20).
func (s *Session) recover(f ReasonRecovered) {
	if f.Mode != RecoverFinalize {
		return
	}
	s.Turn.CutOff++
	if len(f.Message.Parts) > 0 {
		s.Notices = append(s.Notices, f.Message)
	}
}

func (s *Session) startAct(f ActStarted, e Event) error {
	t := s.Turn
	if len(s.Transcript) == 0 {
		return fmt.Errorf("%w: no message asked for these calls", Conflict)
	}
	asked := s.Transcript[len(s.Transcript)-1].Calls()
	if len(asked) != len(f.Calls) {
		return fmt.Errorf("%w: %d calls planned, the message has %d", Conflict, len(f.Calls), len(asked))
	}
	t.Phase, t.ActAt, t.Calls = PhaseActing, e.At, nil
	for i, planned := range f.Calls {
		if planned.ID != asked[i].ID || t.call(planned.ID) != nil {
			return fmt.Errorf("%w: call %s is not the %d. call of the message, or stands there twice", Conflict, planned.ID, i+1)
		}
		c := TurnCall{PlannedCall: planned, Args: asked[i].Arguments, Phase: CallPlanned}
		if planned.Rewritten != nil {
			c.Args = planned.Rewritten
		}
		t.Calls = append(t.Calls, c)
	}
	return nil
}

func (t *Turn) startCall(f ToolStarted, e Event) error {
	c := t.call(f.CallID)
	if c == nil || c.Phase != CallPlanned {
		return fmt.Errorf("%w: call %s is not planned", Conflict, f.CallID)
	}
	c.Phase, c.StartedAt = CallInWork, e.At
	return nil
}

// requestCall notes that the client is to answer a call, or to connect what it needs.
func (t *Turn) requestCall(f ToolCallRequested, e Event) error {
	c := t.call(f.CallID)
	if c == nil || c.Phase != CallPlanned && (f.Connection == "" || c.Phase != CallInWork) {
		return fmt.Errorf("%w: call %s is not to be answered by the client", Conflict, f.CallID)
	}
	c.Phase, c.StartedAt = CallRequested, e.At
	return nil
}

func (s *Session) completeCall(f ToolCompleted) error {
	t := s.Turn
	c := t.call(f.CallID)
	if c == nil || c.Phase == CallDone || f.Result.CallID != f.CallID {
		return fmt.Errorf("%w: call %s waits for no such result", Conflict, f.CallID)
	}
	result := f.Result
	c.Phase, c.Result = CallDone, &result
	t.Violation = t.Violation || result.ErrorKind == ErrorDeterminism
	for _, id := range result.Read {
		if !t.ReadBefore(f.CallID, s.Tasks[id]) {
			s.delivered([]TaskID{id}, DeliveredRead)
		}
	}
	return nil
}

// completeAct puts the results into the transcript, in the model's order (TN13).
func (s *Session) completeAct() {
	t := s.Turn
	for _, c := range t.Calls {
		s.Transcript = append(s.Transcript, Message{Role: RoleToolResult, Parts: []Part{{Type: PartToolResult, Result: c.Result, Untrusted: c.Result != nil && c.Result.Untrusted}}})
	}
	t.ToolCallCount += len(t.Calls)
	t.Loop.note(t.Calls)
	t.Phase, t.Calls = PhaseReady, nil
	s.Status = SessionActive // whoever it waited for has answered
}

// setTask takes over a task's snapshot and notes a result that has to come home. A snapshot that was made
// before the result came home does not bring it home again. A state that cannot be read is Invalid (TK5).
func (s *Session) setTask(task Task) error {
	if !task.State.Valid() {
		return fmt.Errorf("%w state %q of task %s", Invalid, task.State, task.ID)
	}
	known := s.Tasks[task.ID]
	if task.undelivered() && known.Attempt == task.Attempt && known.State == task.State && !known.undelivered() {
		task.Delivered = known.Delivered
	}
	s.Tasks[task.ID] = task
	waiting := task.State.Terminal() && task.Delivery == ToLoop && task.undelivered()
	listed := slices.Contains(s.Ready, task.ID)
	if waiting && !listed {
		s.Ready = append(s.Ready, task.ID)
	}
	if !waiting && listed {
		s.Ready = slices.DeleteFunc(s.Ready, func(id TaskID) bool { return id == task.ID })
	}
	return nil
}

// forget drops tasks whose rows are gone (TK16). One that is not known is forgotten already.
func (s *Session) forget(ids []TaskID) {
	for _, id := range ids {
		delete(s.Tasks, id)
		s.dropQuestions(id)
		s.Ready = slices.DeleteFunc(s.Ready, func(ready TaskID) bool { return ready == id })
	}
}

// dropQuestions forgets what a task asked and nobody has read yet: it does not wait for an answer any more.
func (s *Session) dropQuestions(id TaskID) {
	s.Notices = slices.DeleteFunc(s.Notices, func(m Message) bool { return m.Metadata[MetaRequest] != "" && m.Metadata[MetaTask] == string(id) })
}

// delivered notes what became of results; their pending injection is dropped (DL5).
func (s *Session) delivered(ids []TaskID, how Delivered) {
	for _, id := range ids {
		task, ok := s.Tasks[id]
		if !ok || !task.State.Terminal() || !task.undelivered() {
			continue
		}
		task.Delivered = how
		s.Tasks[id] = task
		s.Ready = slices.DeleteFunc(s.Ready, func(ready TaskID) bool { return ready == id })
	}
}
