package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// progressInterval is how often the rows of running tasks are read for their progress, which is in
// no event.
const progressInterval = time.Second

// thinkingInterval is how often it is shown that a model is thinking.
const thinkingInterval = 5 * time.Second

// errIdle ends a stream whose session has become idle.
var errIdle = errors.New("at rest")

// display shows a stream. Its methods are called one at a time.
type display interface {
	// event shows an event that is already folded into the session.
	event(e perdure.Event, s *perdure.Session) error
	// following shows a frame, which is never stored.
	live(f engine.Frame) error
	// working shows the progress of the live tasks. It is called every progressInterval.
	working(tasks []perdure.Task)
}

// stream follows a session and shows what happens.
type stream struct {
	eng             Engine
	id              perdure.SessionID
	show            display
	tally           *runTally
	unattendedFlags string // flags for suggested commands if no user is present, which ends the stream early; or empty

	mu   sync.Mutex
	fold *perdure.Session // guarded by mu
	sent int              // guarded by mu; messages that were sent from here and have not appeared yet
	stop bool             // guarded by mu; the next turn is to be interrupted as soon as it begins
	// quietCh signals that no turn runs and nothing is queued. Capacity 1: only the latest signal
	// counts. nil: nobody receives.
	quietCh chan struct{}
	// openQuestion signals that an approval was requested or answered. Capacity 1: only the latest
	// signal counts. nil: nobody receives.
	askedCh chan struct{}
}

// newStream folds the journal. The tally includes everything since the session was last idle, which
// belongs to the run that continues here.
func newStream(ctx context.Context, eng Engine, id perdure.SessionID) (*stream, error) {
	s := &stream{eng: eng, id: id, tally: newTally(), fold: perdure.NewSession(id)}
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("read the journal of %s: %w", id, err)
	}
	for _, e := range events {
		if err := s.fold.Apply(e); err != nil {
			return nil, fmt.Errorf("fold the journal of %s: %w", id, err)
		}
		s.tally.add(e)
		if s.fold.AtRest() {
			s.tally = newTally()
		}
	}
	return s, nil
}

// waitIdle shows what happens until the session is idle and all events were shown.
func (s *stream) waitIdle(ctx context.Context) error {
	if err := s.needsUserError(); err != nil {
		return err
	}
	err := s.follow(ctx, func(e perdure.Event) error {
		stuck := s.needsUserError()
		if !s.fold.AtRest() && stuck == nil {
			return nil
		}
		// events of one commit arrive one after another: only the last one ends the stream
		row, err := s.eng.Sessions().Get(ctx, s.id)
		if err != nil || row.LastSeq != e.Seq {
			return err
		}
		if stuck != nil {
			return stuck
		}
		return errIdle
	})
	if errors.Is(err, errIdle) {
		return nil
	}
	return err
}

// needsUserError returns an error when only a user could continue and none is present. nil:
// something continues, or a user is present.
func (s *stream) needsUserError() error {
	if s.unattendedFlags == "" || !waitsForPeople(s.fold) {
		return nil
	}
	if provider := awaitedConnection(s.fold); provider != "" {
		return &userError{
			code: exitApproval, message: string(s.id) + " needs the connection " + printable(provider) + ", but --no-input was given",
			hint: program + " connection add " + strings.TrimSuffix(s.unattendedFlags, "--session "+string(s.id)) + quote(provider) +
				"\nconnects it; the next run continues",
		}
	}
	return &userError{
		code: exitApproval, message: string(s.id) + " needs an answer, but --no-input was given",
		hint: program + " approval list " + s.unattendedFlags + "\n" + program + " task list --state awaiting_input " + s.unattendedFlags +
			"\nshow what it waits for; after an answer, the next run continues",
	}
}

// awaitedConnection returns the provider of a connection that a call waits for; empty: none does.
func awaitedConnection(s *perdure.Session) string {
	if s.Turn == nil {
		return ""
	}
	for _, c := range s.Turn.Calls {
		if c.Phase == perdure.CallAwaitingClient && c.Connection != "" {
			return c.Connection
		}
	}
	return ""
}

// waitsForPeople reports whether a session is blocked on an answer: an approval, the question of a
// task, or a call that the client answers.
func waitsForPeople(s *perdure.Session) bool {
	rest, waits := s.Clone(), false
	for id, t := range s.Tasks {
		switch {
		case t.State == perdure.TaskAwaitingInput:
			waits = true
			delete(rest.Tasks, id)
		case t.State.Live():
			return false
		}
	}
	if s.Turn == nil {
		return waits && rest.AtRest()
	}
	asked := false
	for _, c := range s.Turn.Calls {
		switch c.Phase {
		case perdure.CallAwaitingApproval, perdure.CallAwaitingClient:
			asked = true
		case perdure.CallDone:
		default:
			return false
		}
	}
	return asked && s.Turn.Phase == perdure.PhaseActing
}

// follow shows what happens until after returns an error or ctx ends.
func (s *stream) follow(ctx context.Context, after func(perdure.Event) error) error {
	ctx, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { s.readProgress(ctx) })
	defer group.Wait()
	defer end()
	err := s.eng.Follow(ctx, s.id, s.fold.Seq, func(f engine.Frame) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.Event == nil {
			return s.show.live(f)
		}
		if err := s.fold.Apply(*f.Event); err != nil {
			return err
		}
		s.tally.add(*f.Event)
		if f.Event.Type() == (perdure.MessageReceived{}).EventType() {
			s.sent = max(s.sent-1, 0)
		}
		if err := s.show.event(*f.Event, s.fold); err != nil {
			return err
		}
		s.notifyQuiet()
		s.notifyAsked(*f.Event)
		if err := s.stopTurn(ctx); err != nil {
			return err
		}
		return after(*f.Event)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// readProgress reads the rows of the live tasks at intervals.
func (s *stream) readProgress(ctx context.Context) {
	for pause(ctx, progressInterval) == nil {
		s.mu.Lock()
		open := len(s.fold.OpenTasks())
		s.mu.Unlock()
		var all []perdure.Task
		if open > 0 {
			var err error
			if all, err = s.eng.Tasks().List(ctx, s.id); err != nil {
				continue // the engine reports a failing store itself
			}
		}
		s.mu.Lock()
		s.show.working(all)
		s.mu.Unlock()
	}
}

// interrupt ends the running turn, or the one that is about to start.
func (s *stream) interrupt(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	return s.stopTurn(ctx)
}

// stopTurn is called with mu held. It waits for the turn to begin, because an engine interrupts
// only a running turn.
func (s *stream) stopTurn(ctx context.Context) error {
	if !s.stop || s.fold.Turn == nil {
		return nil
	}
	s.stop = false
	return s.eng.Sessions().Interrupt(ctx, s.id, person, "Ctrl-C")
}

// notifyQuiet is called with mu held.
func (s *stream) notifyQuiet() {
	if s.quietCh == nil || s.busyLocked() {
		return
	}
	signal(s.quietCh)
}

// notifyAsked is called with mu held.
func (s *stream) notifyAsked(e perdure.Event) {
	switch e.Fact.(type) {
	case perdure.ApprovalRequested, perdure.ApprovalResolved:
		signal(s.askedCh)
	}
}

// signal puts a signal into a channel of capacity 1, unless one is there already. nil: it does
// nothing.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// approvals returns the open approvals in their order.
func (s *stream) approvals() []perdure.Approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	return openApprovals(s.fold)
}

// busy reports whether a turn runs or is about to.
func (s *stream) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busyLocked()
}

func (s *stream) busyLocked() bool {
	stopped := s.fold.Paused != nil && (s.fold.Turn == nil || s.fold.Suspended()) || s.fold.Halt != nil &&
		s.fold.Turn == nil
	if stopped && s.sent == 0 {
		return false // nothing continues until a user resumes the session or a budget has something left
	}
	return s.fold.Turn != nil || len(s.fold.Queue) > 0 || s.sent > 0
}

// sending counts a message that is about to be sent.
func (s *stream) sending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	select {
	case <-s.quietCh: // an outdated signal
	default:
	}
}

// open returns the number of tasks that have not ended.
func (s *stream) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fold.OpenTasks())
}

// isIdle reports whether nothing is left to do.
func (s *stream) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.AtRest() && s.sent == 0
}

// journal shows the events as JSON, and nothing else.
type journal struct{ a *app }

func (j journal) event(e perdure.Event, _ *perdure.Session) error {
	return eventText{j.a}.event(e, "jsonl")
}

func (j journal) live(engine.Frame) error { return nil }

func (j journal) working([]perdure.Task) {}

// delta is the frame of a streaming answer: the full text is the first Offset bytes received so
// far, followed by Delta.
type delta struct {
	Offset int    `json:"offset"`
	Delta  string `json:"delta"`
}

// callProgress is the frame of a foreground call's progress.
type callProgress struct {
	CallID  perdure.CallID `json:"call_id"`
	Name    string         `json:"name"`
	Message string         `json:"message"`
	Current *float64       `json:"current"`
	Total   *float64       `json:"total"`
	Unit    string         `json:"unit"`
}

// line formats the progress of the call.
func (p callProgress) line() string {
	return (&perdure.Progress{Current: p.Current, Total: p.Total, Unit: p.Unit, Label: p.Message}).String()
}

// taskLive is the frame of a task's progress and status.
type taskLive struct {
	TaskID   perdure.TaskID    `json:"task_id"`
	Name     string            `json:"name"`
	Detail   string            `json:"state_detail"`
	Progress *perdure.Progress `json:"progress"`
}

// workOutput is the frame of a piece of output of a call or a task.
type workOutput struct {
	CallID perdure.CallID `json:"call_id"`
	TaskID perdure.TaskID `json:"task_id"`
	Name   string         `json:"name"`
	Stream string         `json:"stream"`
	Offset int64          `json:"offset"`
	Bytes  int64          `json:"bytes"`
	Delta  string         `json:"delta"`
}

// streamProgress is the frame of how far an open answer is.
type streamProgress struct {
	MessageID     perdure.MessageID `json:"message_id"`
	TextChars     int               `json:"text_chars"`
	ThinkingChars int               `json:"thinking_chars"`
	LastDeltaAt   time.Time         `json:"last_delta_at"`
}

// readFrame decodes the content of a frame and ignores unknown fields.
func readFrame[T any](f engine.Frame) (T, error) {
	var content T
	if err := perdure.DecodeKnownJSON(f.Data, &content); err != nil {
		return content, fmt.Errorf("read frame %s: %w", f.Type, err)
	}
	return content, nil
}

// runTally adds up the cost and the outcome of a run. It is computed from the journal only, so that
// a run that was killed and continued reports the same figures.
type runTally struct {
	models, calls int
	usage         perdure.Usage
	first, last   time.Time
	turns         []string // errors of failed turns
	interrupted   bool     // the last turn was canceled from here
	sealed        bool     // the last turn was cut short by a budget
	states        map[perdure.TaskID]perdure.TaskState
	unknown       map[perdure.CallID]string // calls of unknown outcome, with their tools
}

func newTally() *runTally {
	return &runTally{states: map[perdure.TaskID]perdure.TaskState{}, unknown: map[perdure.CallID]string{}}
}

// add counts one event.
func (t *runTally) add(e perdure.Event) {
	if t.first.IsZero() {
		t.first = e.At
	}
	t.last = e.At
	switch f := e.Fact.(type) {
	case perdure.Generation:
		t.models++
		t.usage = t.usage.Add(f.Usage)
	case perdure.ToolStarted:
		t.calls++
	case perdure.ToolUnknown:
		t.unknown[f.CallID] = f.Name
	case perdure.ToolResolved:
		delete(t.unknown, f.CallID)
	case perdure.TaskCreated:
		t.states[f.Task.ID] = f.Task.State
	case perdure.TaskUpdated:
		t.states[f.Task.ID] = f.Task.State
	case perdure.TurnStarted:
		t.interrupted, t.sealed = false, false
	case perdure.TurnFailed:
		t.turns = append(t.turns, f.Code+because(f.Error))
	case perdure.TurnSealed:
		t.sealed = f.Reason == perdure.SealBudget
		t.turns = append(t.turns, f.Reason+because(f.Detail))
	case perdure.TurnCanceled:
		t.interrupted = f.By == person
		if !t.interrupted {
			t.turns = append(t.turns, "canceled by "+f.By+because(f.Reason))
		}
	}
}

// cost returns the last line of a run. spent is its cost, or "unknown"; work is the time in models
// and tools as in cost report, or 0 where it is not known.
func (t *runTally) cost(spent string, work time.Duration) string {
	took := span(t.last.Sub(t.first))
	if work > 0 {
		took += " (" + span(work) + " in models and tools)"
	}
	return fmt.Sprintf("%s · %s · %d tokens in, %d out · %s · cost %s",
		count(t.models, "model call"), count(t.calls, "tool call"), t.usage.InputTokens, t.usage.OutputTokens,
		took, spent)
}

// interruptError returns the error of a run that a pause stopped. If the pause also ended its turn,
// the run has failed.
func (t *runTally) interruptError(why error) error {
	var f *userError
	if t.sealed && errors.As(why, &f) {
		f.code = exitFailed
	}
	return why
}

// exitError returns how the run went: nil when everything succeeded.
func (t *runTally) exitError() error {
	bad := map[perdure.TaskState]int{}
	for _, state := range t.states {
		bad[state]++
	}
	var what string
	switch {
	case len(t.turns) > 0:
		what = "the turn failed: " + t.turns[len(t.turns)-1]
	case len(t.unknown) > 0 || bad[perdure.TaskUnknown] > 0:
		what = count(len(t.unknown)+bad[perdure.TaskUnknown], "outcome") + " unknown"
	case bad[perdure.TaskFailed] > 0:
		what = count(bad[perdure.TaskFailed], "task") + " failed"
	case t.interrupted:
		return errInterrupted
	default:
		return nil
	}
	return &userError{code: exitFailed, message: what}
}
