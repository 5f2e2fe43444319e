package local

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// NewSession starts a session for an agent.
func (e *Engine) NewSession(ctx context.Context, agent perdure.Agent) (engine.Session, error) {
	return e.NewSessionAs(ctx, effect.NewID[perdure.SessionID](), agent)
}

// NewSessionAs starts a session under an id of the caller's.
func (e *Engine) NewSessionAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	if err := e.startPlain(ctx, id, agent); err != nil {
		return engine.Session{}, fmt.Errorf("new session: %w", err)
	}
	return e.Session(ctx, id)
}

// startPlain starts the session of an agent that nobody keeps. Only its capabilities are looked up, and those that activate
// themselves.
func (e *Engine) startPlain(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (err error) {
	agent.Order = ""
	gets := len(agent.Capabilities) > 0 || slices.ContainsFunc(e.cfg.Capabilities, func(c tool.Capability) bool { return c.Activate != nil })
	if gets {
		if agent.Order, err = digest(id, agent); err != nil {
			return err
		}
	}
	return e.unlessKnown(ctx, id, agent, func() (err error) {
		made := overlaid{agent: agent}
		if gets {
			if made.files, err = e.equip(&made.agent); err != nil {
				return err
			}
		}
		return e.start(ctx, id, made)
	})
}

// append adds one event with its id and moment.
func (e *Engine) append(tx store.Tx, id perdure.SessionID, event perdure.Event) error {
	event.ID, event.At, event.Session = effect.NewID[perdure.EventID](), tx.Now(), id
	return tx.Append(id, []perdure.Event{event})
}

// Session returns a session.
func (e *Engine) Session(ctx context.Context, id perdure.SessionID) (s engine.Session, err error) {
	return s, e.view(ctx, func(r store.Reader) error {
		row, err := r.Session(id)
		if err != nil {
			return err
		}
		s, err = e.describeOne(r, row)
		return err
	})
}

// describeOne is describe, and who paused it, what keeps it from answering, and how far its turn is.
func (e *Engine) describeOne(r store.Reader, row store.Session) (engine.Session, error) {
	s, err := describe(r, row)
	if err != nil || row.Status == perdure.SessionIdle || row.Status == perdure.SessionStarted {
		return s, err
	}
	fold, err := e.effects.Fold(r, row.ID)
	if err != nil {
		return s, err
	}
	s.Paused, s.Hold = fold.Paused, engine.HoldOf(fold)
	if t := fold.Turn; t != nil {
		s.Turn = &engine.SessionTurn{ID: t.ID, Cause: t.Cause, Phase: t.Phase, Step: t.Iteration, Model: t.Model, Usage: t.Usage, StartedAt: t.StartedAt}
	}
	return s, nil
}

// Sessions lists sessions, newest first.
func (e *Engine) Sessions(ctx context.Context, limit int) ([]engine.Session, error) {
	return e.SessionsWhere(ctx, engine.SessionFilter{Limit: limit})
}

// SessionsWhere lists the sessions that a filter matches, newest first.
func (e *Engine) SessionsWhere(ctx context.Context, f engine.SessionFilter) (list []engine.Session, err error) {
	which := listFor(ctx, f.Limit)
	which.Labels, which.Status = f.Labels, f.Status
	return list, e.view(ctx, func(r store.Reader) error {
		list = nil
		rows, err := r.Sessions(which)
		if err != nil {
			return err
		}
		for _, row := range rows {
			s, err := describe(r, row)
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		return nil
	})
}

// describe counts what a session has open, and what waits for a person: a task that awaits the verdict on an approval
// counts once, with its approval.
func describe(r store.Reader, row store.Session) (engine.Session, error) {
	s := engine.Session{
		ID: row.ID, Parent: row.Parent, Root: row.Root, Forked: row.Forked, Org: ownerOf(row).Org, User: row.User, Title: row.Title, Labels: row.Labels, Status: row.Status, LastSeq: row.LastSeq, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	made, err := effect.AgentOf(r, row.ID)
	if err != nil && !errors.Is(err, perdure.Invalid) && !errors.Is(err, perdure.NotFound) { // a journal that says none is no reason not to show the others
		return s, err
	}
	s.Agent = engine.SessionAgent{ID: made.ID, Name: made.Name, Model: made.Model, Harness: made.Harness}
	open, err := r.Approvals(store.ApprovalFilter{Session: row.ID, State: perdure.ApprovalOpen})
	if err != nil {
		return s, err
	}
	s.NeedsYou = len(open)
	live, waiting, err := liveTasks(r, row.ID)
	if err != nil {
		return s, err
	}
	s.OpenTasks = live
	for _, t := range waiting {
		if !slices.ContainsFunc(open, func(a perdure.Approval) bool { return a.Task == t.ID }) {
			s.NeedsYou++
		}
	}
	unknown, err := r.Calls(store.CallFilter{Session: row.ID, State: perdure.CallUnknown})
	s.Unknown = len(unknown) // an unknown task has an unknown row in the ledger
	return s, err
}

// liveTasks counts the tasks of a session that have not ended, and lists those that await input. What has ended is not read:
// there may be thousands.
func liveTasks(r store.Reader, id perdure.SessionID) (live int, waiting []perdure.Task, err error) {
	awaiting := 0
	for _, state := range []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput} {
		counts, err := r.CountTasks(state, id)
		if err != nil {
			return 0, nil, err
		}
		awaiting = 0
		for _, c := range counts {
			awaiting += c.N
		}
		live += awaiting
	}
	if awaiting > 0 { // the last one
		waiting, err = r.Tasks(store.TaskFilter{Session: id, States: []perdure.TaskState{perdure.TaskAwaitingInput}})
	}
	return live, waiting, err
}

// view reads the store.
func (e *Engine) view(ctx context.Context, fn func(store.Reader) error) error {
	return e.cfg.Store.View(ctx, fn)
}

// Send hands a message to a session. It is acknowledged after the commit.
func (e *Engine) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) error {
	if err := checkInput(message); err != nil {
		return fmt.Errorf("send to %s: %w", id, err)
	}
	named := message.ID != ""
	if !named {
		message.ID = effect.NewMessageID()
	}
	mode := message.Mode
	if mode == "" {
		mode = perdure.ModeSteer
	}
	var twice bool
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		key := ""
		if named {
			if twice, err = e.received(tx, id, message); twice || err != nil {
				return err
			}
			key = string(message.ID)
		}
		if mode == perdure.ModeReject {
			if err := e.idle(tx, id); err != nil {
				return err
			}
		}
		message.At = tx.Now()
		err = e.append(tx, id, perdure.Event{Actor: "user", Trace: telemetry.Parent(ctx), Fact: perdure.MessageReceived{Message: message, Mode: mode, Source: "user", Key: key}})
		if err != nil {
			return err
		}
		return e.revive(tx, id)
	})
	if twice {
		e.tells.Duplicate("message")
	}
	if !refused(err) {
		e.wake(id) // also when the answer of the commit was lost
	}
	if err != nil {
		return fmt.Errorf("send to %s: %w", id, err)
	}
	return nil
}

// idle refuses a session in which a turn runs.
func (e *Engine) idle(r store.Reader, id perdure.SessionID) error {
	runs, err := e.turnRuns(r, id)
	if runs {
		err = fmt.Errorf("%w: a turn runs", perdure.Conflict)
	}
	return err
}

// inTurn reports whether a session of a status has a turn.
func inTurn(s perdure.SessionStatus) bool {
	return s == perdure.SessionActive || s == perdure.SessionWaiting
}

// refused reports an error after which nothing can have been committed.
func refused(err error) bool {
	return errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Conflict)
}

// received looks for a message that was sent before under the same id (N5).
func (e *Engine) received(r store.Reader, id perdure.SessionID, message perdure.Message) (bool, error) {
	s, err := e.effects.Fold(r, id)
	if err != nil {
		return false, err
	}
	if _, known := s.Keys.Get(string(message.ID)); !known {
		return false, nil
	}
	events, err := r.Events(id, 0, 0)
	if err != nil {
		return false, err
	}
	for _, event := range events {
		f, ok := event.Fact.(perdure.MessageReceived)
		if !ok || f.Message.ID != message.ID {
			continue
		}
		if !reflect.DeepEqual(f.Message.Parts, message.Parts) {
			return true, fmt.Errorf("%w: message %s came before with other content", perdure.Conflict, message.ID)
		}
		return true, nil
	}
	return false, nil
}

// checkInput refuses what a user may not send (O4).
func checkInput(m perdure.Message) error {
	if !m.Mode.Valid() {
		return fmt.Errorf("%w mode %q: steer, queue, interrupt or reject", perdure.Invalid, m.Mode)
	}
	if m.Role != perdure.RoleUser && m.Role != "" {
		return fmt.Errorf("%w role %q: a message from outside is a user's", perdure.Invalid, m.Role)
	}
	if len(m.Parts) == 0 {
		return fmt.Errorf("%w message: it is empty", perdure.Invalid)
	}
	for _, part := range m.Parts {
		switch part.Type {
		case perdure.PartText, perdure.PartImage:
		case perdure.PartImageFile:
			if part.ImageFile == nil {
				return fmt.Errorf("%w part image_file: it names no image", perdure.Invalid)
			}
			if _, err := perdure.ParseID[perdure.ImageID](string(part.ImageFile.ID)); err != nil {
				return fmt.Errorf("%w part image_file: %w", perdure.Invalid, err)
			}
		default:
			return fmt.Errorf("%w part %q: a user sends text and images", perdure.Invalid, part.Type)
		}
	}
	return nil
}

// Interrupt asks for the end of the turn that runs.
func (e *Engine) Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error {
	err := e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // also on a full disk (R7)
		if runs, err := e.turnRuns(tx, id); err != nil || !runs {
			return err
		}
		return e.append(tx, id, perdure.Event{Actor: by, Fact: perdure.InterruptRequested{By: by, Reason: why}})
	})
	if !refused(err) {
		e.wake(id)
	}
	if err != nil {
		return fmt.Errorf("interrupt %s: %w", id, err)
	}
	return nil
}

// errRest ends a watch of a session that came to rest.
var errRest = errors.New("at rest")

// WaitIdle returns when the session is at rest.
func (e *Engine) WaitIdle(ctx context.Context, id perdure.SessionID) error {
	var session *perdure.Session
	err := e.view(ctx, func(r store.Reader) (err error) {
		session, err = e.effects.Fold(r, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", id, err)
	}
	if session.Halt != nil && session.Turn == nil && e.resume(ctx, id, "runtime") == nil { // its budget has begun anew
		return e.WaitIdle(ctx, id)
	}
	if session.AtRest() {
		return nil
	}
	err = e.cfg.Store.Watch(ctx, id, session.Seq, func(f store.Frame) error {
		if f.Event == nil {
			return nil
		}
		if err := session.Apply(*f.Event); err != nil {
			return err
		}
		if session.AtRest() {
			return errRest
		}
		return nil
	})
	if errors.Is(err, errRest) {
		return nil
	}
	return fmt.Errorf("wait for %s: %w", id, err)
}

// asked is what the model of a session would be asked now.
func (e *Engine) asked(ctx context.Context, id perdure.SessionID) (model.Request, *perdure.Session, error) {
	return e.effects.Asked(ctx, id)
}
