package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

func (e hostSessions) Create(ctx context.Context, agent perdure.Agent) (engine.Session, error) {
	return e.Sessions().CreateAs(ctx, core.NewID[perdure.SessionID](), agent)
}

// CreateAs creates a session with an id chosen by the caller.
func (e hostSessions) CreateAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	if err := e.startPlain(ctx, id, agent); err != nil {
		return engine.Session{}, fmt.Errorf("new session: %w", err)
	}
	return e.Sessions().Get(ctx, id)
}

// Ensure returns the session with a key, and creates it if there is none.
func (e hostSessions) Ensure(ctx context.Context, key string, agent perdure.Agent) (engine.Session, error) {
	s, err := e.ensure(ctx, key, agent)
	if err != nil {
		return engine.Session{}, fmt.Errorf("session with key %.80q: %w", key, err)
	}
	return s, nil
}

func (e hostSessions) ensure(ctx context.Context, key string, agent perdure.Agent) (s engine.Session, err error) {
	if err := engine.CheckSessionKey(key); err != nil {
		return s, err
	}
	owner, _ := engine.OwnerFromContext(ctx)
	id := perdure.SessionIDForKey(owner.Org, key)
	err = e.startPlain(ctx, id, agent)
	if errors.Is(err, perdure.Conflict) {
		return s, fmt.Errorf("%w; pass the agent that it was created for, or use another key for a new session", err)
	}
	if err != nil {
		return s, err
	}
	s, err = e.Sessions().Get(ctx, id)
	if err == nil && s.Org != owner.Org { // imported from the org that has the key
		return engine.Session{}, fmt.Errorf("%w: the id of the key is taken; use another key", perdure.Conflict)
	}
	return s, err
}

// startPlain creates a session of an agent that is passed by value. Only its capabilities are
// looked up, and the capabilities that activate themselves. The order of a session with a key is
// recorded as its digest: the session is found again by the same agent although the limits of the
// engine, which its agent gets, have changed.
func (e hostSessions) startPlain(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (err error) {
	if err := agent.Check(); err != nil {
		return err
	}
	agent.CreateDigest = ""
	activates := func(c tool.Capability) bool { return c.Activate != nil }
	gets := len(agent.Capabilities) > 0 || slices.ContainsFunc(e.cfg.Catalogue.Capabilities, activates)
	if gets || id.HasKey() {
		if agent.CreateDigest, err = digest(id, agent); err != nil {
			return err
		}
	}
	agent = e.bounded(agent)
	return hostAgents{e.Host}.startUnlessExists(ctx, id, agent, func() (err error) {
		made := resolvedAgent{agent: agent}
		if gets {
			if made.files, err = (hostAgents{e.Host}).addCapabilities(ctx, &made.agent); err != nil {
				return err
			}
		}
		return hostAgents{e.Host}.start(ctx, id, made)
	})
}

// append adds one event; it sets id, time and session.
func (e *Host) append(tx store.Tx, id perdure.SessionID, event perdure.Event) error {
	_, err := e.appendEvent(tx, id, event)
	return err
}

// appendEvent is append that returns the seq of the event.
func (e *Host) appendEvent(tx store.Tx, id perdure.SessionID, event perdure.Event) (int64, error) {
	event.ID, event.At = core.NewID[perdure.EventID](), tx.Now()
	events := []perdure.Event{event}
	err := tx.Journal().Append(id, events)
	return events[0].Seq, err
}

func (e hostSessions) Get(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) (engine.Session, error) {
		row, err := r.Sessions().Get(id)
		if err != nil {
			return engine.Session{}, err
		}
		return e.describeFull(r, row)
	})
}

// describeFull is describe with the pause, the hold and the turn of the session.
func (e hostSessions) describeFull(r store.Reader, row store.Session) (engine.Session, error) {
	s, err := e.describe(r, row)
	if err != nil || !mayBeHeld(row.Status) {
		return s, err
	}
	fold, err := e.effects.Fold(r, row.ID)
	if err != nil {
		return s, err
	}
	s.Paused, s.Hold = fold.Paused, engine.HoldOf(fold)
	if t := fold.Turn; t != nil {
		s.Turn = &engine.SessionTurn{
			ID: t.ID, Cause: t.Cause, Phase: t.Phase, Step: t.Iteration, Model: t.Model, Usage: t.Usage,
			StartedAt: t.StartedAt,
		}
	}
	return s, nil
}

// List lists sessions, newest first.
func (e hostSessions) List(ctx context.Context, limit int) ([]engine.Session, error) {
	return e.Sessions().ListWhere(ctx, engine.SessionFilter{Limit: limit})
}

// ListWhere lists the sessions that a filter matches, newest first.
func (e hostSessions) ListWhere(ctx context.Context, f engine.SessionFilter) (list []engine.Session, err error) {
	if err := engine.CheckLimit(f.Limit); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	which := listFor(ctx, f.Limit)
	which.Labels, which.Status, which.Roots, which.Title = f.Labels, f.Status, f.Roots, f.Title
	which.After = store.SessionPlace(f.After)
	if len(f.IDs) > engine.MaxSessionIDs {
		return nil, fmt.Errorf("list sessions: %w: %d ids, at most %d", perdure.Invalid, len(f.IDs), engine.MaxSessionIDs)
	}
	err = e.view(ctx, func(r store.Reader) error {
		list = nil
		rows, err := sessionRows(r, which, f.IDs)
		if err != nil {
			return err
		}
		for _, row := range rows {
			s, err := e.describe(r, row)
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		if f.Costs {
			err = e.spending.list(e.Host, r, list)
		}
		return err
	})
	return list, err
}

// sessionRows lists rows, of all sessions or of those with some ids, for which it reads no others.
func sessionRows(r store.Reader, which store.SessionFilter, ids []perdure.SessionID) (rows []store.Session, err error) {
	if len(ids) == 0 {
		return r.Sessions().List(which)
	}
	if err := which.Check(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, err := r.Sessions().Get(id)
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return nil, err
		}
		if err == nil && which.Matches(row) && !slices.ContainsFunc(rows, func(s store.Session) bool { return s.ID == id }) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b store.Session) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID)) })
	if which.Limit > 0 {
		rows = rows[:min(which.Limit, len(rows))]
	}
	return rows, nil
}

// describe counts a session's open work and what waits for a person. A task that awaits an approval
// counts once, with its approval.
func (e hostSessions) describe(r store.Reader, row store.Session) (engine.Session, error) {
	s := engine.Session{
		ID: row.ID, Parent: row.Parent, Root: row.Root, Forked: row.Forked, Org: ownerOf(row).Org, User: row.User,
		Title: row.Title, Labels: row.Labels, Status: row.Status, LastSeq: row.LastSeq,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	made, err := core.AgentOf(r, row.ID)
	// A journal without an agent does not keep the other sessions from being listed.
	if err != nil && !errors.Is(err, perdure.Invalid) && !errors.Is(err, perdure.NotFound) {
		return s, err
	}
	s.Agent = engine.SessionAgent{ID: made.ID, Name: made.Name, Model: made.Model, Harness: made.Harness}
	open, err := r.Approvals().List(store.ApprovalFilter{Session: row.ID, State: perdure.ApprovalOpen})
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
	if s.Home, err = e.homeOf(r, row); err != nil {
		return s, err
	}
	unknown, err := r.Calls().List(store.CallFilter{Session: row.ID, State: perdure.CallUnknown})
	s.Unknown = len(unknown) // an unknown task has an unknown row in the ledger
	return s, err
}

// liveTasks counts the live tasks of a session and lists those that await input. It does not read
// ended tasks, because there may be thousands.
func liveTasks(r store.Reader, id perdure.SessionID) (live int, waiting []perdure.Task, err error) {
	awaiting := 0
	for _, state := range []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput} {
		counts, err := r.Tasks().Count(state, id)
		if err != nil {
			return 0, nil, err
		}
		awaiting = 0
		for _, c := range counts {
			awaiting += c.N
		}
		live += awaiting
	}
	if awaiting > 0 { // counts TaskAwaitingInput, the last state of the loop
		waiting, err = r.Tasks().List(store.TaskFilter{Session: id, States: []perdure.TaskState{perdure.TaskAwaitingInput}})
	}
	return live, waiting, err
}

// view reads the store.
func (e *Host) view(ctx context.Context, fn func(store.Reader) error) error {
	return e.cfg.Store.View(ctx, fn)
}

// checkNoTurn returns Conflict if a turn of the session is running.
func (e *Host) checkNoTurn(r store.Reader, id perdure.SessionID) error {
	runs, err := hostSessions{e}.hasTurn(r, id)
	if runs {
		err = fmt.Errorf("%w: a turn is running", perdure.Conflict)
	}
	return err
}

// inTurn reports whether a session with this status has a turn.
func inTurn(s perdure.SessionStatus) bool {
	return s == perdure.SessionActive || s == perdure.SessionWaiting
}

// nothingCommitted reports whether an error proves that nothing was committed.
func nothingCommitted(err error) bool {
	return errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Conflict)
}

// Interrupt requests the end of the running turn.
func (e hostSessions) Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error {
	err := e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // also on a full disk (R7)
		if runs, err := e.hasTurn(tx.Reader(), id); err != nil || !runs {
			return err
		}
		return e.append(tx, id, perdure.Event{Actor: by, Fact: perdure.InterruptRequested{By: by, Reason: why}})
	})
	if !nothingCommitted(err) {
		e.scheduler.Wake(id)
	}
	if err != nil {
		return fmt.Errorf("interrupt %s: %w", id, err)
	}
	return nil
}

// errIdle ends the watch of a session that has become idle.
var errIdle = errors.New("at rest")

func (e hostSessions) WaitIdle(ctx context.Context, id perdure.SessionID) error {
	session, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (*perdure.Session, error) {
		return e.effects.Fold(r, id)
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", id, err)
	}
	resumed := session.Halt != nil && session.Turn == nil && e.resume(ctx, id, "runtime") == nil
	if resumed { // a new budget period has begun
		return e.Sessions().WaitIdle(ctx, id)
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
			return errIdle
		}
		return nil
	})
	if errors.Is(err, errIdle) {
		return nil
	}
	return fmt.Errorf("wait for %s: %w", id, err)
}

// nextModelRequest returns the model request that the session would make now.
func (e *Host) nextModelRequest(ctx context.Context, id perdure.SessionID) (model.Request, *perdure.Session, error) {
	return e.effects.Generation().NextRequest(ctx, id)
}
