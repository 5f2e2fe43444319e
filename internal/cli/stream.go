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

// lookEvery is how often the rows of running tasks are read for their progress, which is in no event.
const lookEvery = time.Second

// errRest ends a stream whose session came to rest.
var errRest = errors.New("at rest")

// display is how a stream is shown. Its methods are called one at a time.
type display interface {
	// event shows an event; the session has folded it already.
	event(e perdure.Event, s *perdure.Session) error
	// live shows a frame that was never stored.
	live(f engine.Frame) error
	// working shows how far the live tasks are.
	working(tasks []perdure.Task)
}

// stream follows a session and shows what happens.
type stream struct {
	eng   Engine
	id    perdure.SessionID
	show  display
	tally *tally
	alone string // the flags of commands that answer, where nobody is there to do it: the stream ends where only a person could go on. Empty: somebody is

	mu   sync.Mutex
	fold *perdure.Session // guarded by mu
	sent int              // guarded by mu; messages that were sent from here and have not been seen yet
	stop bool             // guarded by mu; the next turn is to be interrupted as soon as it has begun
	// quiet tells that no turn runs and nothing is queued. Capacity 1: only the last news counts. nil: nobody asks.
	quiet chan struct{}
	// asked tells that an approval was asked for or answered. Capacity 1: only the last news counts. nil: nobody asks.
	asked chan struct{}
}

// newStream folds what the journal has. What happened since the session was last at rest belongs to the run
// that goes on here, and is counted with it.
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

// untilRest shows what happens until the session is at rest and all of it was shown.
func (s *stream) untilRest(ctx context.Context) error {
	if err := s.stuck(); err != nil {
		return err
	}
	err := s.follow(ctx, func(e perdure.Event) error {
		stuck := s.stuck()
		if !s.fold.AtRest() && stuck == nil {
			return nil
		}
		row, err := s.eng.Session(ctx, s.id) // events of one commit come one after another: the last one ends it
		if err != nil || row.LastSeq != e.Seq {
			return err
		}
		if stuck != nil {
			return stuck
		}
		return errRest
	})
	if errors.Is(err, errRest) {
		return nil
	}
	return err
}

// stuck says that only a person could go on, where none is there (C4). nil: something goes on, or somebody is there.
func (s *stream) stuck() error {
	if s.alone == "" || !waitsForPeople(s.fold) {
		return nil
	}
	return &fault{
		code: exitApproval, what: string(s.id) + " waits for a person, and --no-input was given",
		todo: program + " approval list " + s.alone + "\n" + program + " task list --state awaiting_input " + s.alone + "\nshow what it waits for; what is answered goes on with the next run",
	}
}

// waitsForPeople reports whether nothing of a session goes on before somebody answers: an approval, the question of a
// task, or a call that the client is to answer.
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
		case perdure.CallAsking, perdure.CallRequested:
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
	group.Go(func() { s.look(ctx) })
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
		s.tellQuiet()
		s.tellAsked(*f.Event)
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

// look reads the rows of the live tasks every now and then.
func (s *stream) look(ctx context.Context) {
	for pause(ctx, lookEvery) == nil {
		s.mu.Lock()
		open := len(s.fold.OpenTasks())
		s.mu.Unlock()
		if open == 0 {
			continue
		}
		all, err := s.eng.Tasks(ctx, s.id)
		if err != nil {
			continue // the engine says itself when the store fails
		}
		s.mu.Lock()
		s.show.working(all)
		s.mu.Unlock()
	}
}

// interrupt ends the turn that runs, or the one that is about to.
func (s *stream) interrupt(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	return s.stopTurn(ctx)
}

// stopTurn is called with mu held. An engine interrupts only what runs.
func (s *stream) stopTurn(ctx context.Context) error {
	if !s.stop || s.fold.Turn == nil {
		return nil
	}
	s.stop = false
	return s.eng.Interrupt(ctx, s.id, person, "Ctrl-C")
}

// tellQuiet is called with mu held.
func (s *stream) tellQuiet() {
	if s.quiet == nil || s.busyLocked() {
		return
	}
	signal(s.quiet)
}

// tellAsked is called with mu held.
func (s *stream) tellAsked(e perdure.Event) {
	switch e.Fact.(type) {
	case perdure.ApprovalRequested, perdure.ApprovalResolved:
		signal(s.asked)
	}
}

// signal leaves word in a channel of capacity 1, unless some is there already. nil: nobody wants it.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// approvals are the open ones, in their order.
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
	stopped := s.fold.Paused != nil && (s.fold.Turn == nil || s.fold.Suspended()) || s.fold.Halt != nil && s.fold.Turn == nil
	if stopped && s.sent == 0 {
		return false // nothing goes on before somebody resumes it, or a budget has something left
	}
	return s.fold.Turn != nil || len(s.fold.Queue) > 0 || s.sent > 0
}

// sending notes a message that is on its way.
func (s *stream) sending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	select {
	case <-s.quiet: // old news
	default:
	}
}

// open returns the number of tasks that have not ended.
func (s *stream) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fold.OpenTasks())
}

// atRest reports whether nothing is left to do.
func (s *stream) atRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.AtRest() && s.sent == 0
}

// journal shows the events as JSON, and nothing else.
type journal struct{ a *app }

func (j journal) event(e perdure.Event, _ *perdure.Session) error { return j.a.event(e, "jsonl") }

func (j journal) live(engine.Frame) error { return nil }

func (j journal) working([]perdure.Task) {}

// delta is the live frame of an answer that streams: its text is the first Offset bytes of what was heard, and Delta.
type delta struct {
	Offset int    `json:"offset"`
	Delta  string `json:"delta"`
}

// callProgress is the live frame of a foreground call's progress.
type callProgress struct {
	CallID  perdure.CallID `json:"call_id"`
	Name    string         `json:"name"`
	Message string         `json:"message"`
	Current float64        `json:"current"`
	Total   float64        `json:"total"`
}

// line says how far the call is.
func (p callProgress) line() string {
	if p.Total > 0 {
		return strings.TrimSpace(fmt.Sprintf("%g/%g %s", p.Current, p.Total, p.Message))
	}
	return p.Message
}

// readFrame reads what a live frame of our own carries; fields that are not looked at are left.
func readFrame[T any](f engine.Frame) (T, error) {
	var content T
	if err := perdure.DecodeKnownJSON(f.Data, &content); err != nil {
		return content, fmt.Errorf("read frame %s: %w", f.Type, err)
	}
	return content, nil
}

// tally adds up what a run cost and how it went. All of it comes from the journal, so that a run which was
// killed and gone on with ends with the same figures.
type tally struct {
	models, calls int
	usage         perdure.Usage
	first, last   time.Time
	turns         []string // why turns failed
	interrupted   bool     // the last turn was canceled from here
	sealed        bool     // the last turn was cut short by a budget
	states        map[perdure.TaskID]perdure.TaskState
	unknown       map[perdure.CallID]string // calls of unknown outcome, by tool
}

func newTally() *tally {
	return &tally{states: map[perdure.TaskID]perdure.TaskState{}, unknown: map[perdure.CallID]string{}}
}

// add counts one event.
func (t *tally) add(e perdure.Event) {
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

// cost is the line that a run ends with (C9). Money is what the prices come to, or the word that it is not known.
func (t *tally) cost(money string) string {
	return fmt.Sprintf("%s · %s · %d tokens in, %d out · %s · money %s",
		count(t.models, "model call"), count(t.calls, "tool call"), t.usage.InputTokens, t.usage.OutputTokens, span(t.last.Sub(t.first)), money)
}

// cut is how a run ends that something stopped: one whose own turn was cut short by that has failed, too.
func (t *tally) cut(why error) error {
	var f *fault
	if t.sealed && errors.As(why, &f) {
		f.code = exitFailed
	}
	return why
}

// end says how the run went: nil when all of it is well (C4).
func (t *tally) end() error {
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
	return &fault{code: exitFailed, what: what}
}
