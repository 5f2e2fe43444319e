package perdure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Apply folds the next event of the journal into the session. An event out of order, or one that
// cannot follow what came before, is Conflict, and the session must not be used any more. A fact of
// an unknown type only advances Seq.
//
// A person's pause covers the other statuses: while one stands, Status is SessionPaused and Under
// has the status that the session would have without it. Apply therefore restores the covered
// status, folds the event, and covers it again.
func (s *Session) Apply(e Event) error {
	if e.Seq != s.Seq+1 {
		return fmt.Errorf("%w: session %s is at seq %d and cannot apply seq %d", Conflict, s.ID, s.Seq, e.Seq)
	}
	// The journal stores microseconds, and a live fold must equal a replayed one.
	e.At = e.At.UTC().Truncate(time.Microsecond)
	if s.Paused != nil {
		s.Status = s.CoveredStatus
	}
	if err := s.apply(e); err != nil {
		return fmt.Errorf("apply seq %d, %s: %w", e.Seq, e.Type(), err)
	}
	s.CoveredStatus = ""
	if s.Paused != nil {
		s.CoveredStatus, s.Status = s.Status, SessionPaused
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
		s.Title, s.Labels = cmp.Or(f.Title, s.Title), s.Labels.With(f.Labels)
	case SessionActivated:
		s.Status = SessionActive
	case SessionIdled:
		s.Status = s.idleStatus()
	case BudgetWarning, BudgetPaused, BudgetExhausted, BudgetResumed:
		s.applyBudget(f)
	case SessionStopped:
		s.stop(f)
	case SessionPauses:
		s.pause(f, e.At)
	case SessionResumes:
		s.resume()
	case MessageReceived:
		s.receive(f, e)
	case DeliveryHeld:
		s.DeliveryHeld = true
	case TaskCreated:
		return s.setTask(f.Task)
	case TaskUpdated:
		if f.Task.State != TaskAwaitingInput {
			s.dropQuestions(f.Task.ID)
		}
		return s.setTask(f.Task)
	case TaskDelivered:
		s.Transcript = append(s.Transcript, f.Message)
		s.recordDelivery(f.TaskIDs, DeliveredInjected)
	case TaskPruned:
		s.removeTasks(f.TaskIDs)
	case TranscriptRepaired:
		return s.repair(f)
	case LoopDetected:
		if s.Turn != nil {
			s.Turn.Loop.ReportedDigest = s.Turn.Loop.Repeated.Digest
		}
		if len(f.Message.Parts) > 0 {
			s.Notifications = append(s.Notifications, f.Message)
		}
	case ContextCompacted:
		s.Compacted = f.Compaction
		if s.Turn != nil {
			s.Turn.CompactedOnce = s.Turn.CompactedOnce || s.Turn.Last.Code == CodeTooLarge
		}
	case ApprovalRequested:
		return s.request(f)
	case ApprovalResolved:
		s.resolve(f)
	case TaskMessageSent:
		if len(f.Notification.Parts) > 0 {
			s.Notifications = append(s.Notifications, f.Notification)
			s.TurnRequested = s.TurnRequested || f.Wake == WakeContinue
		}
	case SchedulePaused:
		if len(f.Notification.Parts) > 0 {
			s.Notifications = append(s.Notifications, f.Notification)
		}
	case ToolUnknown:
		s.UnknownCalls[f.CallID] = f.Name
	case ToolResolved:
		delete(s.UnknownCalls, f.CallID)
		s.Notifications = append(s.Notifications, f.Message)
	case TurnStarted:
		return s.startTurn(f, e)
	default:
		return s.applyTurn(e)
	}
	return nil
}

// fork takes over the conversation of another session. It must directly follow session.created.
func (s *Session) fork(f SessionForked) error {
	if s.Seq != 1 {
		return fmt.Errorf("%w: session %s already has events and cannot become a fork", Conflict, s.ID)
	}
	s.Transcript, s.Compacted = slices.Clone(f.Transcript), f.Compaction
	for _, id := range f.UsedCalls {
		s.UsedCalls.Put(id, true)
	}
	return nil
}

// applyTurn folds the facts that are only possible while a turn is running.
func (s *Session) applyTurn(e Event) error {
	if _, unknown := e.Fact.(UnknownFact); unknown {
		return nil
	}
	t := s.Turn
	if _, intent := e.Fact.(InterruptRequested); t == nil && intent {
		return nil // the turn ended before the interrupt was committed
	}
	switch f := e.Fact.(type) {
	case ToolDetachRequested:
		t.requestDetach(f.CallID, e.Seq)
		return nil
	case ToolDetachRefused:
		t.requestDetach(f.CallID, 0)
		return nil
	case TaskCancelRequested, TaskCancelReceipt, TaskReattached, TaskResolved, TaskMessageReceived, OutputReplaced, ToolTakenOver,
		ToolDetached, ToolEvent, AuditRecorded, ResourceUpdated, LeaseExpired, LeaseCleanupFailed, FileWritten, RequestDenied,
		ScheduleCreated, ScheduleFired, ScheduleSkipped, ScheduleCanceled:
		return nil // history only; the task's snapshot has the state
	}
	if bill, ok := e.Fact.(Generation); ok && bill.Tool != "" { // a tool may call a model outside a turn
		s.addUsage(bill.Usage, e.Turn)
		return nil
	}
	if t == nil {
		return fmt.Errorf("%w: no turn is running", Conflict)
	}
	switch f := e.Fact.(type) {
	case InterruptRequested:
		if t.Interrupt == nil { // the first interrupt wins
			t.Interrupt = &f
		}
	case ReasonStarted:
		s.startReason(f)
	case OutputStarted:
		t.OutputOpen = true
	case OutputCompleted:
		s.completeOutput(f)
	case ReasonCompleted:
		t.Phase, t.Last = PhaseReasoned, f
		if f.Success {
			t.BrokenAnswers = 0
		}
		if f.Code == CodeEmptyAnswer {
			t.EmptyAnswers++
		}
	case Generation:
		s.addUsage(f.Usage, t.ID)
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
			s.recordBudgetCut(sealed)
		}
		if s.Lineage != nil { // the parent session reads it
			end := t.endOf(f)
			s.LastTurn = &end
		}
	default:
		return fmt.Errorf("%w fact %T", Invalid, e.Fact)
	}
	return nil
}

// addUsage adds usage to the session, and to the given turn while that turn is running.
func (s *Session) addUsage(u Usage, turn TurnID) {
	s.Usage = s.Usage.Add(u)
	if s.Turn != nil && s.Turn.ID == turn {
		s.Turn.Usage = s.Turn.Usage.Add(u)
	}
}

func (s *Session) receive(f MessageReceived, e Event) {
	if _, twice := s.MessageKeys.Get(f.Key); twice && f.Key != "" {
		return // the same message was sent again
	}
	m := f.Message
	m.Mode = f.Mode
	s.Queue = append(s.Queue, m)
	if e.Trace != "" {
		if s.Traces == nil {
			s.Traces = map[MessageID]string{}
		}
		s.Traces[m.ID] = e.Trace
	}
	if f.Key != "" {
		s.MessageKeys.Put(f.Key, e.Seq)
	}
	if f.Source == "" || f.Source == "user" || f.Source == "api" {
		s.Continuations, s.DeliveryHeld, s.Stopped = 0, false, nil // a person has sent a message
	}
	if f.Mode == ModeInterrupt && s.Turn != nil && s.Turn.Interrupt == nil {
		s.Turn.Interrupt = &InterruptRequested{By: cmp.Or(f.Source, "user"), Reason: "a new message"}
	}
}

func (s *Session) startTurn(f TurnStarted, e Event) error {
	if s.Turn != nil {
		return fmt.Errorf("%w: turn %s is still running", Conflict, s.Turn.ID)
	}
	s.Turn = &Turn{ID: f.TurnID, Cause: f.Cause, Input: f.MessageID, Model: f.Model, Phase: PhaseReady, StartedAt: e.At, Trace: s.Traces[f.MessageID]}
	s.CutByBudget = false
	if f.Cause == CauseDelivery {
		s.Continuations++
	}
	return nil
}

// startReason opens a reason step. The inputs that the fact names enter the transcript in its
// order.
func (s *Session) startReason(f ReasonStarted) {
	t := s.Turn
	t.Phase, t.Exec, t.Message, t.Attempt, t.NotBefore = PhaseReasoning, f.ExecID, f.MessageID, f.Attempt, f.NotBefore
	if f.Iteration != t.Iteration {
		t.Iteration, t.EmptyAnswers = f.Iteration, 0
	}
	t.LLMCallCount++
	s.TurnRequested = false
	// The transcript was checked before this step, and inputs contain no calls.
	s.CheckedLen = max(s.CheckedLen, len(s.Transcript))
	for _, id := range f.Inputs {
		s.moveToTranscript(&s.Notifications, id)
		if m := s.moveToTranscript(&s.Queue, id); len(m.Metadata) > 0 {
			merged := maps.Clone(m.Metadata)
			for key, value := range t.Metadata {
				if _, later := merged[key]; !later {
					merged[key] = value
				}
			}
			t.Metadata = merged
		}
	}
}

// moveToTranscript moves a waiting message into the transcript and returns it; the zero message: it
// does not wait here.
func (s *Session) moveToTranscript(from *[]Message, id MessageID) (moved Message) {
	i := slices.IndexFunc(*from, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return moved
	}
	moved = (*from)[i]
	s.Transcript = append(s.Transcript, moved)
	delete(s.Traces, id)
	*from = slices.Delete(*from, i, i+1)
	return moved
}

func (s *Session) completeOutput(f OutputCompleted) {
	t := s.Turn
	t.OutputOpen = false
	if len(f.Message.Parts) == 0 {
		if !f.Interrupted { // an empty answer is the final one
			t.Final, t.FinalText = f.Message.ID, ""
		}
		return
	}
	s.Transcript = append(s.Transcript, f.Message)
	for _, c := range f.Message.Calls() {
		s.UsedCalls.Put(c.ID, true)
	}
	t.Final, t.FinalText = f.Message.ID, f.Message.Text()
}

// recover records that an answer broke off, and queues the notification about it for the model.
func (s *Session) recover(f ReasonRecovered) {
	if f.Mode != RecoverFinalize {
		return
	}
	s.Turn.BrokenAnswers++
	if len(f.Message.Parts) > 0 {
		s.Notifications = append(s.Notifications, f.Message)
	}
}

func (s *Session) startAct(f ActStarted, e Event) error {
	t := s.Turn
	if len(s.Transcript) == 0 {
		return fmt.Errorf("%w: the transcript has no message with these calls", Conflict)
	}
	asked := s.Transcript[len(s.Transcript)-1].Calls()
	if len(asked) != len(f.Calls) {
		return fmt.Errorf("%w: %d calls are planned, but the message has %d", Conflict, len(f.Calls), len(asked))
	}
	t.Phase, t.ActAt, t.Calls = PhaseActing, e.At, nil
	for i, planned := range f.Calls {
		if planned.ID != asked[i].ID || t.call(planned.ID) != nil {
			return fmt.Errorf("%w: call %s is not call number %d of the message, or occurs twice",
				Conflict, planned.ID, i+1)
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
		return fmt.Errorf("%w: call %s is not in the phase planned", Conflict, f.CallID)
	}
	c.Phase, c.StartedAt = CallExecuting, e.At
	return nil
}

// requestDetach records the pending intent to detach a running call; 0: it was answered. The turn
// may be nil, or the call may have ended, because nothing fences an intent. Of several intents the
// first one stays.
func (t *Turn) requestDetach(id CallID, intent int64) {
	if t == nil || !t.IsRunning(id) {
		return
	}
	if c := t.call(id); intent == 0 || c.DetachIntent == 0 {
		c.DetachIntent = intent
	}
}

// requestCall records that the client must answer a call, or must set up the connection it needs.
func (t *Turn) requestCall(f ToolCallRequested, e Event) error {
	c := t.call(f.CallID)
	if c == nil || c.Phase != CallPlanned && (f.Connection == "" || c.Phase != CallExecuting) {
		return fmt.Errorf("%w: call %s cannot be answered by the client", Conflict, f.CallID)
	}
	c.Phase, c.StartedAt, c.Connection = CallAwaitingClient, e.At, f.Connection
	return nil
}

func (s *Session) completeCall(f ToolCompleted) error {
	t := s.Turn
	c := t.call(f.CallID)
	if c == nil || c.Phase == CallDone || f.Result.CallID != f.CallID {
		return fmt.Errorf("%w: call %s does not wait for this result", Conflict, f.CallID)
	}
	result := f.Result
	c.Phase, c.Result = CallDone, &result
	t.DeterminismViolation = t.DeterminismViolation || result.ErrorKind == ErrorDeterminism
	for _, id := range result.ReadTasks {
		if !t.ReadBefore(f.CallID, s.Tasks[id]) {
			s.recordDelivery([]TaskID{id}, DeliveredRead)
		}
	}
	return nil
}

// completeAct appends the results to the transcript in the order in which the model made the calls.
func (s *Session) completeAct() {
	t := s.Turn
	for _, c := range t.Calls {
		s.Transcript = append(s.Transcript, Message{Role: RoleToolResult, Parts: []Part{{Type: PartToolResult, Result: c.Result, Untrusted: c.Result != nil && c.Result.Untrusted}}})
	}
	t.ToolCallCount += len(t.Calls)
	t.Loop.observe(t.Calls)
	t.Phase, t.Calls = PhaseReady, nil
	s.Status = SessionActive // every awaited answer has arrived
}

// setTask stores a task's snapshot and updates the list of results that are to be delivered. A
// snapshot that was taken before the result was delivered does not queue the result again. An
// invalid state is Invalid.
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
	listed := slices.Contains(s.Undelivered, task.ID)
	if waiting && !listed {
		s.Undelivered = append(s.Undelivered, task.ID)
	}
	if !waiting && listed {
		s.Undelivered = slices.DeleteFunc(s.Undelivered, func(id TaskID) bool { return id == task.ID })
	}
	return nil
}

// removeTasks removes tasks whose rows were pruned. Unknown ids are ignored.
func (s *Session) removeTasks(ids []TaskID) {
	for _, id := range ids {
		delete(s.Tasks, id)
		s.dropQuestions(id)
		s.Undelivered = slices.DeleteFunc(s.Undelivered, func(ready TaskID) bool { return ready == id })
	}
}

// dropQuestions removes the task's questions that the model has not read yet. The task no longer
// waits for an answer to them.
func (s *Session) dropQuestions(id TaskID) {
	s.Notifications = slices.DeleteFunc(s.Notifications, func(m Message) bool { return m.Metadata[MetaRequest] != "" && m.Metadata[MetaTask] == string(id) })
}

// recordDelivery records how results were delivered and removes them from the list of pending
// deliveries.
func (s *Session) recordDelivery(ids []TaskID, how Delivered) {
	for _, id := range ids {
		task, ok := s.Tasks[id]
		if !ok || !task.State.Terminal() || !task.undelivered() {
			continue
		}
		task.Delivered = how
		s.Tasks[id] = task
		s.Undelivered = slices.DeleteFunc(s.Undelivered, func(ready TaskID) bool { return ready == id })
	}
}
