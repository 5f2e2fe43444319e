package perdure_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// simulator is an engine for tests of the root package alone: a journal in its stored form, the
// rows of tasks, one driver, and commands that run until a test chooses their outcome. It checks
// every event and every decision against the laws.
type simulator struct {
	tb       rapid.TB
	now      time.Time
	tick     time.Duration // how far the clock moves before each commit
	secret   perdure.Secret
	moment   perdure.Moment // NoProgress and ModelAttempts
	journal  [][]byte
	events   []perdure.Event // the journal as it is read back
	laws     *laws
	rows     map[perdure.TaskID]perdure.Task
	sample   int                     // every how many decisions the expensive laws are checked; 0: each time
	asked    int                     // decisions so far
	violates map[perdure.CallID]bool // claims that find the same call id with other content
	ids      uint64

	session *perdure.Session // the driver's fold, as of its last commit
	due     []perdure.Command
	rested  bool

	takeUps  int // of the session's row
	takenSeq int
	taken    perdure.TurnID // the turn that the driver found
}

// sessionID is the one session of every simulator.
const sessionID = perdure.SessionID("session_0190b9e7c0de7000800000000000c0de")

// newSimulator starts a session at a fixed moment. The driver has it.
func newSimulator(tb rapid.TB, agent perdure.Agent) *simulator {
	w := &simulator{
		tb: tb, now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), secret: perdure.Secret{1, 2, 3}, laws: newLaws(tb),
		rows: map[perdure.TaskID]perdure.Task{}, violates: map[perdure.CallID]bool{},
	}
	w.intend(perdure.SessionCreated{Agent: agent})
	w.session = w.fold(0)
	w.takenSeq = len(w.journal)
	w.wake()
	return w
}

// newID mints an identifier that the same script mints again.
func newID[T perdure.ID](w *simulator) T {
	w.ids++
	var uuid [16]byte
	binary.BigEndian.PutUint64(uuid[8:], w.ids)
	uuid[6], uuid[8] = 0x70, 0x80
	return perdure.FormatID[T](uuid)
}

// intend is another writer: its facts are in the journal, and the driver learns of them before it
// decides.
func (w *simulator) intend(facts ...perdure.Fact) {
	w.tb.Helper()
	w.now = w.now.Add(w.tick)
	for _, fact := range facts {
		w.commit(w.stored(perdure.Event{Session: sessionID, Actor: "user", Fact: fact}, len(w.journal)))
	}
}

// stored returns an event in its stored form, after the first n events of the journal.
func (w *simulator) stored(e perdure.Event, n int) []byte {
	w.tb.Helper()
	e.Seq, e.At = int64(n)+1, w.now
	e.ID = perdure.DeriveID[perdure.EventID](perdure.Secret{}, w.now, fmt.Sprint(e.Seq))
	text, err := perdure.EncodeEvent(e)
	if err != nil {
		w.tb.Fatalf("encode seq %d: %v", e.Seq, err)
	}
	return text
}

// commit adds to the journal, and to the rows what an event says of them.
func (w *simulator) commit(texts ...[]byte) {
	w.tb.Helper()
	for _, text := range texts {
		e := w.decoded(text)
		w.journal, w.events = append(w.journal, text), append(w.events, e)
		w.laws.see(e)
		switch f := e.Fact.(type) {
		case perdure.TaskCreated:
			w.rows[f.Task.ID] = f.Task
		case perdure.TaskDelivered:
			w.markDelivered(f.TaskIDs, perdure.DeliveredInjected)
		case perdure.ToolCompleted:
			w.markDelivered(w.laws.read(f), perdure.DeliveredRead)
		}
	}
}

func (w *simulator) markDelivered(ids []perdure.TaskID, how perdure.Delivered) {
	w.tb.Helper()
	for _, id := range ids {
		row := w.rows[id]
		if row.Delivered != perdure.NotDelivered {
			continue
		}
		change, err := row.Update(perdure.TaskUpdate{Attempt: row.Attempt, Delivered: how}, w.now)
		if err != nil || change.NeedsEvent {
			w.tb.Fatalf("%s of task %s: got event %t, error %v", how, id, change.NeedsEvent, err)
		}
		w.rows[id] = change.Task
	}
}

func (w *simulator) decoded(text []byte) perdure.Event {
	w.tb.Helper()
	e, err := perdure.DecodeEvent(text)
	if err != nil {
		w.tb.Fatalf("decode %s: %v", text, err)
	}
	return e
}

// update writes to a task's row and records in the journal what it must record (EV7).
func (w *simulator) update(id perdure.TaskID, u perdure.TaskUpdate) perdure.TaskChange {
	w.tb.Helper()
	change, err := w.rows[id].Update(u, w.now)
	if err != nil || change.Answer != perdure.Updated {
		return change
	}
	w.rows[id] = change.Task
	if change.NeedsEvent {
		w.intend(perdure.TaskUpdated{Task: change.Task})
	}
	return change
}

// fold reads the journal from the start up to n events; 0 means all of them.
func (w *simulator) fold(n int) *perdure.Session {
	w.tb.Helper()
	s := perdure.NewSession(sessionID)
	if n == 0 {
		n = len(w.events)
	}
	w.catchUp(s, w.events[:n])
	return s
}

// catchUp folds what the journal has beyond the session.
func (w *simulator) catchUp(s *perdure.Session, journal []perdure.Event) {
	w.tb.Helper()
	for _, e := range journal[s.Seq:] {
		if err := s.Apply(e); err != nil {
			w.tb.Fatalf("%v: %+v", err, e)
		}
	}
}

// step is one transaction of the driver as it was tried: what it adds to the journal, and what it
// leaves.
type step struct {
	session *perdure.Session
	events  [][]byte
	due     []perdure.Command
}

// wake lets the driver look at what others wrote.
func (w *simulator) wake() { w.tb.Helper(); w.settle() }

// settle commits the outcome of an act together with what follows from it. A transaction may run
// more than once: both runs must write the same, and neither may touch the fold of the last commit.
func (w *simulator) settle(outcome ...perdure.Fact) {
	w.tb.Helper()
	w.now = w.now.Add(w.tick)
	var first step
	if w.sampled() {
		first = w.tryTwice(outcome)
	} else {
		first = w.try(outcome)
	}
	w.commit(first.events...)
	w.session, w.due = first.session, first.due
	w.rested = len(first.due) == 1 && reflect.DeepEqual(first.due[0], perdure.ReleaseSession{})
	w.laws.due(w.session, w.due)
	if w.rested {
		w.laws.rest(w.session)
		if w.sampled() {
			w.laws.sameRows(w.session, w.rows)
		}
	}
}

func (w *simulator) tryTwice(outcome []perdure.Fact) step {
	w.tb.Helper()
	before := w.snapshot(w.session)
	first, second := w.try(outcome), w.try(outcome)
	if !slices.EqualFunc(first.events, second.events, bytes.Equal) {
		w.tb.Fatalf("the same transaction writes something else the second time\nfirst %s\n then %s", first.events, second.events)
	}
	if after := w.snapshot(w.session); !bytes.Equal(after, before) {
		w.tb.Fatalf("a transaction on a clone changed the session\n got %s\nwant %s", after, before)
	}
	return first
}

// sampled reports whether the dear laws are checked this time.
func (w *simulator) sampled() bool {
	w.asked++
	return w.sample == 0 || w.asked%w.sample == 0
}

func (w *simulator) try(outcome []perdure.Fact) step {
	w.tb.Helper()
	s := step{session: w.session.Clone()}
	w.catchUp(s.session, w.events)
	for _, fact := range outcome {
		w.record(&s, perdure.Event{Session: sessionID, Actor: "runtime", Fact: fact})
	}
	for range 100 {
		commands := w.decide(s.session)
		again := false
		for _, command := range commands {
			switch c := command.(type) {
			case perdure.Record:
				again = true
				for _, e := range c.Events {
					w.addressed(s.session, e)
					w.record(&s, e)
				}
			case perdure.ClaimCall:
				again = true
				w.addressed(s.session, c.Event)
				w.record(&s, w.claimed(c))
			}
		}
		if !again {
			s.due = commands
			return s
		}
	}
	w.tb.Fatalf("Decide still records after 100 rounds: %+v", w.decide(s.session))
	return s
}

// addressed wants the envelope of an event that was decided to say whose it is, and to leave the
// rest to the store.
func (w *simulator) addressed(s *perdure.Session, e perdure.Event) {
	w.tb.Helper()
	want := perdure.Event{At: w.now, Session: sessionID, Actor: "runtime", Fact: e.Fact}
	if s.Turn != nil {
		want.Turn = s.Turn.ID
	}
	switch f := e.Fact.(type) {
	case perdure.SessionActivated:
		want.Turn = f.TurnID
	case perdure.SessionIdled:
		want.Turn = f.TurnID
	case perdure.TurnStarted:
		want.Turn = f.TurnID
	case perdure.ToolStarted:
		want.Call = f.CallID
	case perdure.ToolCompleted:
		want.Call = f.CallID
	case perdure.ToolCallRequested:
		want.Call = f.CallID
	case perdure.ApprovalRequested:
		want.Call = f.Approval.Call
	}
	if diff := cmp.Diff(e, want); diff != "" {
		w.tb.Fatalf("envelope (-got +want):\n%s", diff)
	}
}

// record applies what the driver writes as it is, not as it will be read back.
func (w *simulator) record(s *step, e perdure.Event) {
	w.tb.Helper()
	text := w.stored(e, len(w.journal)+len(s.events))
	e.Seq, e.At = int64(len(w.journal)+len(s.events))+1, w.now
	if err := s.session.Apply(e); err != nil {
		w.tb.Fatalf("%v\n%s", err, text)
	}
	s.events = append(s.events, text)
}

// claimed is the event of a claim: the call starts, or it came before with other content (LG14).
func (w *simulator) claimed(c perdure.ClaimCall) perdure.Event {
	e := c.Event
	if w.violates[c.Call.ID] {
		result := perdure.Refused(c.Call.ID, perdure.ErrorDeterminism, "this call came before with other content")
		e.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: result.Status(), Result: result, Replayed: true}
	}
	return e
}

// decide asks twice: the answers are deeply equal, and asking changes nothing (PR3).
func (w *simulator) decide(s *perdure.Session) []perdure.Command {
	w.tb.Helper()
	m := w.momentOf(s)
	if !w.sampled() {
		return s.Decide(m)
	}
	before := w.snapshot(s)
	first, second := s.Decide(m), s.Decide(m)
	if !reflect.DeepEqual(first, second) {
		w.tb.Fatalf("Decide answers twice differently\n got %+v\nthen %+v", first, second)
	}
	if after := w.snapshot(s); !bytes.Equal(after, before) {
		w.tb.Fatalf("Decide changed the session\n got %s\nwant %s", after, before)
	}
	return first
}

func (w *simulator) momentOf(s *perdure.Session) perdure.Moment {
	m := w.moment
	m.Now, m.Secret = w.now, w.secret
	if s.Turn != nil && s.Turn.ID == w.taken {
		m.Resumes = w.takeUps
	}
	return m
}

func (w *simulator) snapshot(s *perdure.Session) []byte {
	w.tb.Helper()
	body, err := perdure.EncodeSnapshot(s)
	if err != nil {
		w.tb.Fatalf("encode the snapshot: %v", err)
	}
	return body
}

func (w *simulator) restored(body []byte) *perdure.Session {
	w.tb.Helper()
	s, err := perdure.DecodeSnapshot(perdure.FoldVersion, body)
	if err != nil {
		w.tb.Fatalf("decode the snapshot: %v", err)
	}
	return s
}

// crash drops everything that is running. The next driver folds the journal from its start and, if
// there is a snapshot of the first n events, from that too, and continues with what is due.
func (w *simulator) crash(n int) {
	w.tb.Helper()
	w.sameFold(n)
	same := w.session.Seq == int64(len(w.journal)) && !w.sealing()
	were := w.due
	if w.takeUps++; w.takenSeq != len(w.journal) {
		w.takeUps = 0
	}
	w.takenSeq, w.taken = len(w.journal), ""
	w.session = w.fold(0)
	if w.session.Turn != nil {
		w.taken = w.session.Turn.ID
	}
	w.wake()
	if diff := cmp.Diff(w.due, were); same && !w.sealing() && diff != "" {
		w.tb.Fatalf("another driver finds something else due (-now +before the crash):\n%s", diff)
	}
}

// sealing reports whether the driver found its turn too often without progress (TN1).
func (w *simulator) sealing() bool {
	return w.moment.NoProgress > 0 && w.takeUps >= w.moment.NoProgress && w.session.Turn != nil && w.session.Turn.ID == w.taken
}

// sameFold compares the fold of the whole journal, the fold by way of a snapshot after n events,
// and the driver's own fold with what it has not seen yet (PR2, O8).
func (w *simulator) sameFold(n int) {
	w.tb.Helper()
	want := w.snapshot(w.fold(0))
	cached := w.restored(w.snapshot(w.fold(n)))
	w.catchUp(cached, w.events)
	if got := w.snapshot(cached); !bytes.Equal(got, want) {
		w.tb.Fatalf("the fold by way of seq %d differs from the whole one\n got %s\nwant %s", n, got, want)
	}
	live := w.session.Clone()
	w.catchUp(live, w.events)
	if got := w.snapshot(live); !bytes.Equal(got, want) {
		w.tb.Fatalf("the driver's fold differs from the journal's\n got %s\nwant %s", got, want)
	}
	if diff := cmp.Diff(cached.Decide(w.momentOf(cached)), live.Decide(w.momentOf(live))); diff != "" {
		w.tb.Fatalf("Decide answers differently on a fold from a snapshot (-snapshot +live):\n%s", diff)
	}
}

// model returns the running model call.
func (w *simulator) model() (perdure.CallModel, bool) {
	for _, command := range w.due {
		if c, ok := command.(perdure.CallModel); ok {
			return c, true
		}
	}
	return perdure.CallModel{}, false
}

// runs returns the running calls.
func (w *simulator) runs() []perdure.RunCall {
	var runs []perdure.RunCall
	for _, command := range w.due {
		if c, ok := command.(perdure.RunCall); ok {
			runs = append(runs, c)
		}
	}
	return runs
}

// asked is one call that a model's answer asks for.
type asked struct {
	perdure.PlannedCall
	Args string
}

// answer is the model's whole answer: message, bill and plan of its calls are one outcome (TN5).
func (w *simulator) answer(text string, calls ...asked) []perdure.Fact {
	w.tb.Helper()
	c, ok := w.model()
	if !ok {
		w.tb.Fatalf("no model call is running: %+v", w.due)
	}
	w.now = later(w.now, c.NotBefore)
	message := perdure.Message{ID: c.Message, Role: perdure.RoleAgent, At: w.now}
	if text != "" {
		message.Parts = append(message.Parts, perdure.Part{Type: perdure.PartText, Text: text})
	}
	act := perdure.ActStarted{}
	for _, call := range calls {
		message.Parts = append(message.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &perdure.ToolCall{
			ID: call.ID, Name: call.Name, Arguments: json.RawMessage(call.Args),
		}})
		act.Calls = append(act.Calls, call.PlannedCall)
	}
	usage := perdure.Usage{InputTokens: 10, OutputTokens: 3}
	facts := []perdure.Fact{
		perdure.OutputCompleted{Message: message, Usage: usage, FinishReason: "stop"},
		perdure.Generation{Usage: usage},
		perdure.ReasonCompleted{ExecID: c.Exec, Success: true, TextPreview: text, ToolCallCount: len(calls)},
	}
	if len(calls) > 0 {
		facts = append(facts, act)
	}
	return facts
}

// failure is an attempt that failed; its message stays open.
func (w *simulator) failure(code string, retryable bool) []perdure.Fact {
	w.tb.Helper()
	c, ok := w.model()
	if !ok {
		w.tb.Fatalf("no model call is running: %+v", w.due)
	}
	w.now = later(w.now, c.NotBefore)
	return []perdure.Fact{
		perdure.Generation{Error: code},
		perdure.ReasonCompleted{ExecID: c.Exec, Code: code, Error: "it failed", Retryable: retryable},
	}
}

// cutOff is an attempt that broke off after text was seen: the text stands, marked (TN20).
func (w *simulator) cutOff(text string, retryable bool) []perdure.Fact {
	w.tb.Helper()
	facts := w.failure("provider_unavailable", retryable)
	c, _ := w.model()
	part := func(text string) []perdure.Part { return []perdure.Part{{Type: perdure.PartText, Text: text}} }
	kept := perdure.Message{ID: c.Message, Role: perdure.RoleAgent, Interrupted: true, Parts: part(text), At: w.now}
	notice := perdure.Message{ID: perdure.MessageID("message_of_" + string(c.Exec)), Role: perdure.RoleNotification, Parts: part("it broke off")}
	return []perdure.Fact{
		perdure.OutputCompleted{Message: kept, Interrupted: true, FinishReason: "interrupted"}, facts[0],
		perdure.ReasonRecovered{MessageID: c.Message, Mode: perdure.RecoverFinalize, TextBytes: len(text), Message: notice}, facts[1],
	}
}

// stopped is an answer that was stopped with its turn.
func (w *simulator) stopped(text string) []perdure.Fact {
	w.tb.Helper()
	c, ok := w.model()
	if !ok {
		w.tb.Fatalf("no model call is running: %+v", w.due)
	}
	message := perdure.Message{ID: c.Message, Role: perdure.RoleAgent, Interrupted: true, At: w.now}
	if text != "" {
		message.Parts = []perdure.Part{{Type: perdure.PartText, Text: text}}
	}
	return []perdure.Fact{
		perdure.OutputCompleted{Message: message, Interrupted: true, FinishReason: "interrupted"},
		perdure.Generation{Error: perdure.CodeInterrupted},
		perdure.ReasonCompleted{ExecID: c.Exec, Code: perdure.CodeInterrupted, Error: "interrupted"},
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// done is the result of a call that succeeded with a value.
func done(c perdure.TurnCall, value string) perdure.ToolCompleted {
	return completed(c, perdure.ToolResult{CallID: c.ID, Result: json.RawMessage(value)})
}

// completed is the end of a call with a result.
func completed(c perdure.TurnCall, result perdure.ToolResult) perdure.ToolCompleted {
	return perdure.ToolCompleted{CallID: c.ID, Name: c.Name, Status: result.Status(), Result: result}
}

// receive is a person's message, and its id.
func (w *simulator) receive(text string, mode perdure.Mode) perdure.MessageID {
	w.tb.Helper()
	message := perdure.Text(text)
	message.ID, message.At = newID[perdure.MessageID](w), w.now
	w.intend(perdure.MessageReceived{Message: message, Mode: mode, Source: "user"})
	return message.ID
}

// task adds a task with the given delivery and wake, and returns its id.
func (w *simulator) task(state perdure.TaskState, delivery perdure.Delivery, wake perdure.Wake) perdure.TaskID {
	w.tb.Helper()
	t := w.newTask(state)
	t.Delivery, t.Wake = delivery, wake
	w.intend(perdure.TaskCreated{Task: t})
	return t.ID
}

func (w *simulator) newTask(state perdure.TaskState) perdure.Task {
	t := perdure.Task{
		ID: newID[perdure.TaskID](w), Run: newID[perdure.RunID](w), Session: sessionID, RootSession: sessionID,
		Kind: perdure.KindBackgroundTool, Origin: perdure.OriginSpawned, Tool: "bash", DisplayName: "Build", Class: perdure.AtMostOnce,
		Spec: perdure.TaskSpec{Tool: "bash", Arguments: json.RawMessage(`{}`)},
		Lane: perdure.Background, State: state, Attempt: 1, Delivery: perdure.ToLoop, Wake: perdure.WakeContinue,
		Delivered: perdure.NotDelivered, CreatedAt: w.now, UpdatedAt: w.now,
	}
	if state == perdure.TaskRunning {
		t.StartedAt, t.Executions = w.now, 1
	}
	return t
}
