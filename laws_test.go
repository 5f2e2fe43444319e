package perdure_test

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// laws reads a journal event by event and fails on the first that breaks a law. It knows nothing of
// the fold: it is what a reader of the journal may rely on.
type laws struct {
	tb         rapid.TB
	active     bool
	paused     bool // by a person
	turn       *turnLaws
	ids        map[string]bool            // of exec steps and messages that the runtime made
	turns      map[perdure.TurnID]bool    // true: it has ended
	calls      map[perdure.CallID]bool    // true: it has its result
	received   map[perdure.MessageID]mail // inputs that wait
	begun      map[perdure.CallID]time.Time
	tasks      map[perdure.TaskID]perdure.Task
	pending    map[perdure.TaskID]bool // ended and to_loop: waits to be injected or read
	continued  int                     // automatic turns since a person spoke
	transcript []perdure.Message
	cap        int // of automatic turns
	iterations int // that a turn may have
}

// mail is an input that waits, and the turn that ran when it came.
type mail struct {
	mode  perdure.Mode
	while perdure.TurnID
}

// turnLaws has what is open in the running turn.
type turnLaws struct {
	id          perdure.TurnID
	reason      perdure.ExecID
	output      perdure.MessageID
	act         bool
	tools       map[perdure.CallID]bool // of the act step: true while it runs
	interrupted bool
	iterations  int
}

func newLaws(tb rapid.TB) *laws {
	return &laws{
		tb: tb, ids: map[string]bool{}, turns: map[perdure.TurnID]bool{}, calls: map[perdure.CallID]bool{}, received: map[perdure.MessageID]mail{},
		begun: map[perdure.CallID]time.Time{}, tasks: map[perdure.TaskID]perdure.Task{}, pending: map[perdure.TaskID]bool{},
	}
}

// must fails when a law is broken at an event.
func (l *laws) must(ok bool, e perdure.Event, law string) {
	l.tb.Helper()
	if !ok {
		l.tb.Fatalf("%s: broken by seq %d, %s: %+v", law, e.Seq, e.Type(), e.Fact)
	}
}

// made wants an id that the runtime makes to be one, and used for one thing only.
func (l *laws) made(id string, e perdure.Event) {
	l.tb.Helper()
	_, digits, _ := strings.Cut(id, "_")
	l.must(len(digits) == 32 && !l.ids[id], e, "an id is made once (EV4): "+id)
	l.ids[id] = true
}

// see reads the next event.
func (l *laws) see(e perdure.Event) {
	l.tb.Helper()
	l.must(!l.paused || !startsWork(e.Fact), e, "nothing starts in a session that a person paused")
	switch f := e.Fact.(type) {
	case perdure.SessionPauses:
		l.paused = true
	case perdure.SessionResumes:
		l.paused = false
	case perdure.SessionCreated:
		l.cap = orDefault(f.Agent.MaxContinuations, perdure.DefaultMaxContinuations)
		l.iterations = orDefault(f.Agent.MaxIterations, perdure.DefaultMaxIterations)
	case perdure.SessionActivated:
		l.must(!l.active, e, "a session is activated once before it idles (EV5)")
		l.active = true
	case perdure.SessionIdled:
		l.must(l.active, e, "a session idles once after it was activated (EV5)")
		l.must(l.turn == nil, e, "a session idles when its turn has ended (TN2)")
		l.active = false
	case perdure.MessageReceived:
		m := mail{mode: f.Mode}
		if l.turn != nil {
			m.while = l.turn.id
			l.turn.interrupted = l.turn.interrupted || f.Mode == perdure.ModeInterrupt
		}
		l.received[f.Message.ID] = m
		l.continued = 0
	case perdure.InterruptRequested:
		if l.turn != nil {
			l.turn.interrupted = true
		}
	case perdure.TaskCreated:
		l.task(f.Task)
	case perdure.TaskUpdated:
		l.task(f.Task)
	case perdure.TaskDelivered:
		l.delivered(e, f)
	case perdure.TurnStarted:
		l.startTurn(e, f)
	default:
		l.seeTurn(e)
	}
}

// startsWork reports whether a fact starts something, as opposed to recording an outcome.
func startsWork(fact perdure.Fact) bool {
	switch fact.(type) {
	case perdure.SessionActivated, perdure.TurnStarted, perdure.ReasonStarted, perdure.OutputStarted, perdure.ToolStarted,
		perdure.TaskDelivered, perdure.ApprovalRequested, perdure.ToolCallRequested, perdure.SessionAwaits, perdure.ContextCompacted:
		return true
	}
	return false
}

// seeTurn reads the events of a turn.
func (l *laws) seeTurn(e perdure.Event) {
	l.tb.Helper()
	switch f := e.Fact.(type) {
	case perdure.ReasonStarted:
		l.startReason(e, f)
	case perdure.ReasonCompleted:
		l.must(l.turn != nil && l.turn.reason == f.ExecID, e, "a reason step closes once, under its own id (EV5)")
		l.turn.reason = ""
	case perdure.OutputStarted:
		l.must(l.turn != nil && l.turn.output == "", e, "one message is open at a time (EV5)")
		l.made(string(f.MessageID), e)
		l.turn.output = f.MessageID
	case perdure.OutputCompleted:
		l.must(l.turn != nil && l.turn.output == f.Message.ID, e, "an open message closes once (EV5)")
		l.turn.output = ""
	case perdure.ActStarted:
		l.startAct(e, f)
	case perdure.ToolStarted:
		running, planned := l.turn.tools[f.CallID]
		l.must(l.turn.act && planned && !running && !l.calls[f.CallID], e, "a planned call starts once, and never after its result (EV5)")
		l.must(!l.turn.interrupted, e, "nothing starts in a turn that was interrupted (RC8)")
		l.turn.tools[f.CallID], l.begun[f.CallID] = true, e.At
	case perdure.ToolCompleted:
		l.completeCall(e, f)
	case perdure.ActCompleted:
		l.must(l.turn != nil && l.turn.act, e, "an act step closes once (EV5)")
		for id := range l.turn.tools {
			l.must(l.calls[id], e, "an act step closes when every call has a result (TN13)")
		}
		l.turn.act, l.turn.tools = false, nil
	case perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
		l.endTurn(e)
	}
}

func (l *laws) startTurn(e perdure.Event, f perdure.TurnStarted) {
	l.tb.Helper()
	l.made(string(f.TurnID), e)
	_, known := l.turns[f.TurnID]
	l.must(l.active && l.turn == nil && !known, e, "turns come one after another, in an active session, each with an id of its own (EV4)")
	l.turns[f.TurnID] = false
	l.turn = &turnLaws{id: f.TurnID}
	if f.Cause == perdure.CauseDelivery {
		l.continued++
		l.must(l.continued <= l.cap, e, "no more automatic turns than the cap (DL8)")
	} else if f.Cause != perdure.CauseResume {
		_, waits := l.received[f.MessageID]
		l.must(waits, e, "a turn's input waits until the turn takes it (DL12)")
	}
}

func (l *laws) endTurn(e perdure.Event) {
	l.tb.Helper()
	t := l.turn
	l.must(t != nil, e, "a turn ends once (TN2)")
	l.must(t.reason == "" && t.output == "" && !t.act, e, "a turn ends when all that it started is closed (EV5)")
	_, completed := e.Fact.(perdure.TurnCompleted)
	l.must(!completed || !t.interrupted, e, "a turn that was interrupted does not complete (RC8)")
	l.turns[t.id], l.turn = true, nil
}

func (l *laws) startReason(e perdure.Event, f perdure.ReasonStarted) {
	l.tb.Helper()
	t := l.turn
	l.must(t != nil && t.reason == "" && !t.act, e, "reason steps come one after another (EV5)")
	l.must(!t.interrupted, e, "nothing starts in a turn that was interrupted (RC8)")
	l.must((f.Attempt > 1) == (t.iterations == f.Iteration), e, "only another attempt repeats an iteration (TN1)")
	l.must(f.Iteration <= l.iterations, e, "no more iterations than the limit (TN1)")
	l.must(f.Attempt == 1 || f.MessageID == t.output, e, "another attempt is for the message that is open (TN3)")
	l.made(string(f.ExecID), e)
	t.reason, t.iterations = f.ExecID, f.Iteration
	for _, id := range f.Inputs {
		m, waits := l.received[id]
		queued := m.mode == perdure.ModeQueue || m.mode == perdure.ModeInterrupt
		l.must(!waits || !queued || m.while != t.id, e, "what is queued waits for the end of the turn (DL10)")
		delete(l.received, id)
	}
	for id, m := range l.received {
		steers := m.mode == "" || m.mode == perdure.ModeSteer
		l.must(f.Attempt > 1 || !steers, e, "a steering message enters at the next safe point (DL10): "+string(id))
	}
}

func (l *laws) startAct(e perdure.Event, f perdure.ActStarted) {
	l.tb.Helper()
	t := l.turn
	l.must(t != nil && t.reason == "" && t.output == "" && !t.act, e, "calls exist when their message is whole (TN5)")
	t.act, t.tools = true, map[perdure.CallID]bool{}
	for _, c := range f.Calls {
		_, known := l.calls[c.ID]
		l.must(!known, e, "a call id is used once (N7)")
		l.calls[c.ID], t.tools[c.ID] = false, false
	}
}

func (l *laws) completeCall(e perdure.Event, f perdure.ToolCompleted) {
	l.tb.Helper()
	done, known := l.calls[f.CallID]
	l.must(known && !done, e, "a call completes exactly once (LG18)")
	_, planned := l.turn.tools[f.CallID]
	l.must(planned, e, "a call completes in its own step (TN13)")
	l.must(!f.Result.NeverStarted || !l.turn.tools[f.CallID], e, "what has started does not say that it never did (LN11)")
	l.must(f.Result.CallID == f.CallID, e, "a result names its own call (TN16)")
	l.calls[f.CallID], l.turn.tools[f.CallID] = true, false
	for _, id := range l.read(f) {
		delete(l.pending, id)
	}
}

// read returns the tasks whose present end the model learns from a call. A call that started before
// an operator resolved a task may have read the earlier end (DL2).
func (l *laws) read(f perdure.ToolCompleted) []perdure.TaskID {
	return slices.DeleteFunc(slices.Clone(f.Result.ReadTasks), func(id perdure.TaskID) bool {
		resolved := l.tasks[id].ResolvedAt
		return !resolved.IsZero() && !resolved.Before(l.begun[f.CallID])
	})
}

// task reads a snapshot: a new end must be delivered, and an end that was revoked must not (DL1,
// TK3).
func (l *laws) task(task perdure.Task) {
	old := l.tasks[task.ID]
	l.tasks[task.ID] = task
	switch {
	case !task.State.Terminal():
		delete(l.pending, task.ID)
	case old.State != task.State || old.Attempt != task.Attempt:
		l.pending[task.ID] = task.Delivery == perdure.ToLoop
	}
}

// delivered wants each end injected at most once, and never one that was read (I16, DL2, DL5).
func (l *laws) delivered(e perdure.Event, f perdure.TaskDelivered) {
	l.tb.Helper()
	l.made(string(f.Message.ID), e)
	l.must(l.turn != nil && l.turn.reason == "" && !l.turn.act, e, "deliveries come before a model call (DL3)")
	for _, id := range f.TaskIDs {
		l.must(l.pending[id], e, "an end is injected at most once, and not when it was read (I16)")
		delete(l.pending, id)
	}
}

// due checks what a decision asks for.
func (l *laws) due(s *perdure.Session, due []perdure.Command) {
	l.tb.Helper()
	l.grows(s.Transcript)
	if s.Turn != nil && len(due) == 0 {
		l.tb.Fatalf("a turn runs and nothing is due: %+v", s.Turn)
	}
	for _, command := range due {
		switch c := command.(type) {
		case perdure.CallModel:
			if l.turn == nil || l.turn.id != c.Turn || l.turn.reason != c.Exec || l.turn.output != c.Message {
				l.tb.Fatalf("the model is asked beside the journal (PR3): %+v, the journal has %+v", c, l.turn)
			}
			l.paired(s.Transcript)
		case perdure.RunCall:
			if l.turn == nil || l.turn.id != c.Turn || !l.turn.tools[c.Call.ID] || l.calls[c.Call.ID] || !s.Turn.IsRunning(c.Call.ID) {
				l.tb.Fatalf("a call is run beside the journal (PR3): %+v, the journal has %+v", c, l.turn)
			}
		}
	}
	l.together(s.Agent, due)
}

// together checks the limits of TN11 for the running calls.
func (l *laws) together(agent perdure.Agent, due []perdure.Command) {
	l.tb.Helper()
	limit := agent.MaxParallelCalls
	if agent.SerialCalls {
		limit = 1
	}
	running, classes := 0, map[string]bool{}
	for _, command := range due {
		c, ok := command.(perdure.RunCall)
		if !ok {
			continue
		}
		if running++; limit > 0 && running > limit {
			l.tb.Fatalf("%d calls at once, the limit is %d (TN11): %+v", running, limit, due)
		}
		if class := c.Call.Concurrency; class != "" && classes[class] {
			l.tb.Fatalf("two calls of class %s at once (TN11): %+v", class, due)
		} else {
			classes[class] = true
		}
	}
}

// grows wants the transcript only ever to be added to.
func (l *laws) grows(transcript []perdure.Message) {
	l.tb.Helper()
	if len(transcript) < len(l.transcript) || len(l.transcript) > 0 && !reflect.DeepEqual(transcript[:len(l.transcript)], l.transcript) {
		l.tb.Fatalf("the transcript was rewritten\n got %+v\nwant it to begin with %+v", transcript, l.transcript)
	}
	l.transcript = slices.Clone(transcript)
}

// paired wants each call of an agent's message answered by exactly one result, right after the
// message and in the model's order, and no result without a call (I17, TN13, TN16, DL3).
func (l *laws) paired(transcript []perdure.Message) {
	l.tb.Helper()
	var open []perdure.CallID
	for i, m := range transcript {
		if m.Role != perdure.RoleToolResult {
			if len(open) > 0 {
				l.tb.Fatalf("message %d comes before the results of %v (TN16): %+v", i, open, m)
			}
			for _, call := range m.Calls() {
				open = append(open, call.ID)
			}
			continue
		}
		for _, part := range m.Parts {
			if len(open) == 0 || part.Result == nil || part.Result.CallID != open[0] {
				l.tb.Fatalf("message %d is not the result of the next call of %v (TN13): %+v", i, open, part.Result)
			}
			open = open[1:]
		}
	}
	if len(open) > 0 {
		l.tb.Fatalf("the transcript ends without the results of %v (TN16)", open)
	}
}

// rest checks what holds once nothing is left to do.
func (l *laws) rest(s *perdure.Session) {
	l.tb.Helper()
	if l.paused {
		l.suspended(s)
		return
	}
	l.paired(s.Transcript)
	if l.turn != nil || l.active || len(l.received) > 0 || len(s.Queue) > 0 {
		l.tb.Fatalf("the session rests with turn %+v, active %t, inputs %v, queue %+v", l.turn, l.active, l.received, s.Queue)
	}
	for id, ended := range l.turns {
		if !ended {
			l.tb.Fatalf("the session rests, and turn %s has not ended", id)
		}
	}
	for id, done := range l.calls {
		if !done {
			l.tb.Fatalf("the session rests, and call %s has no result", id)
		}
	}
	if got, want := s.AtRest(), len(s.OpenTasks()) == 0; got != want {
		l.tb.Fatalf("AtRest with %d open tasks: got %t, want %t", len(s.OpenTasks()), got, want)
	}
	l.checkDelivered(s)
}

// suspended checks that a session that a person paused is at rest, with nothing running and the
// status paused.
func (l *laws) suspended(s *perdure.Session) {
	l.tb.Helper()
	if s.Status != perdure.SessionPaused || s.Paused == nil {
		l.tb.Fatalf("the session is paused, and stands as %s, by %+v", s.Status, s.Paused)
	}
	if got, want := s.AtRest(), len(s.OpenTasks()) == 0; got != want {
		l.tb.Fatalf("AtRest of a paused session with %d open tasks: got %t, want %t", len(s.OpenTasks()), got, want)
	}
	if t := l.turn; t != nil {
		for id, running := range t.tools {
			if t.reason != "" || running && !l.calls[id] {
				l.tb.Fatalf("the session is released while step %s or call %s of turn %s is running", t.reason, id, t.id)
			}
		}
	}
}

// checkDelivered checks that each result was injected or read, unless its wake and the cap leave it
// waiting (I16, DL6, DL8).
func (l *laws) checkDelivered(s *perdure.Session) {
	l.tb.Helper()
	waiting := 0
	for id, pending := range l.pending {
		if !pending {
			continue
		}
		waiting++
		if task := s.Tasks[id]; task.Wake == perdure.WakeContinue && s.Continuations < l.cap {
			l.tb.Fatalf("the session is idle, and task %s was not delivered (I16): %+v", id, task)
		}
		if !slices.Contains(s.Undelivered, id) {
			l.tb.Fatalf("the fold forgot that task %s has to be delivered (I16)", id)
		}
	}
	if waiting != len(s.Undelivered) {
		l.tb.Fatalf("results that wait: got %v, want %v", s.Undelivered, l.pending)
	}
}

// sameRows compares the fold of the journal with the rows of the tasks, except for what only the
// rows and live watchers have (PR2, EV7).
func (l *laws) sameRows(s *perdure.Session, rows map[perdure.TaskID]perdure.Task) {
	l.tb.Helper()
	live := cmpopts.IgnoreFields(perdure.Task{},
		"StateDetail", "Progress", "LogBytes", "Summary", "ResultPath", "LogPath", "Error", "DeadlineAt", "Worker", "Executions", "UpdatedAt")
	if diff := cmp.Diff(s.Tasks, rows, live, cmpopts.EquateEmpty()); diff != "" {
		l.tb.Fatalf("the fold differs from the rows of its tasks (-fold +rows):\n%s", diff)
	}
}
