package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/sessioncache"
	"github.com/perdure/perdure/store"
)

// How many events lie between two snapshots of a session: snapshotEvery while a turn runs, and
// snapshotAtRest when the session is released, so that a short turn needs no extra commit for a
// cache. A snapshot holds the whole session, so its cost grows with the journal. Requiring at least
// 1/snapshotPart of the journal between two snapshots keeps the cost for each event constant.
const (
	snapshotEvery  = 500
	snapshotAtRest = 50
	snapshotPart   = 8
)

// maxCatchUps is how often a step folds the events of others before its commit, if there are more
// than fit into one.
const maxCatchUps = 5

// errBehind says that there are too many events to fold inside a commit. Nothing is committed.
var errBehind = errors.New("too many new events")

// Drive is a session as held by its one driver, under an epoch. It is not safe for concurrent use.
type Drive struct {
	ID            perdure.SessionID
	row           store.Session
	session       *perdure.Session                // as of the last commit
	acquiredTurn  perdure.TurnID                  // the turn that was open when the driver acquired the session
	snapshotSeq   int64                           // sequence number of the last snapshot
	inheritedExec perdure.ExecID                  // the reason step that was open when the driver acquired the session
	claimed       map[perdure.CallID]perdure.Call // claimed by commits of this driver, and not started yet
	Released      bool                            // the last commit released the session
	reportedState string                          // of a subagent: the state that its parent was last notified of
	// Draining stops new claims, because the engine is stopping.
	Draining bool
}

// Epoch returns the fencing token of the driver's writes.
func (d *Drive) Epoch() int64 { return d.row.Epoch }

// Session returns the fold as of the last commit. The caller must not change it.
func (d *Drive) Session() *perdure.Session { return d.session }

// Acquire acquires a session for this worker and returns the commands that are due. Acquiring the
// session and recording the first decisions are one commit. Elsewhere, of kind Lost: another worker
// that is alive drives the session.
func (e *Effects) Acquire(ctx context.Context, id perdure.SessionID) (*Drive, []perdure.Command, error) {
	d := &Drive{ID: id, claimed: map[perdure.CallID]perdure.Call{}}
	if err := e.fold(ctx, d); err != nil {
		return nil, nil, fmt.Errorf("acquire %s: %w", id, err)
	}
	if d.session.Turn != nil {
		d.acquiredTurn = d.session.Turn.ID
	}
	commands, err := e.commit(ctx, d, nil, true)
	if err != nil {
		return nil, nil, fmt.Errorf("acquire %s: %w", id, err)
	}
	return d, commands, nil
}

// fold loads the session from the cache of this process, or else from snapshot and journal.
func (e *Effects) fold(ctx context.Context, d *Drive) error {
	if last, ok := e.core.Folds.Get(d.ID); ok {
		d.session, d.snapshotSeq = last.Session, last.Saved
		return nil
	}
	return e.core.Store.View(ctx, func(r store.Reader) (err error) {
		d.session, d.snapshotSeq, err = core.FoldFromSnapshot(r, d.ID)
		return err
	})
}

// Commit records outcomes together with what follows from them, and returns the commands that are
// due next. Lost: another driver has the session; stop and write nothing more.
func (e *Effects) Commit(ctx context.Context, d *Drive, outcomes []core.Outcome) ([]perdure.Command, error) {
	commands, err := e.commit(ctx, d, outcomes, false)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", d.ID, err)
	}
	return commands, nil
}

func (e *Effects) commit(ctx context.Context, d *Drive, outcomes []core.Outcome, take bool) ([]perdure.Command, error) {
	var step *step
	var failed error
	// The commit runs to its answer even if ctx ends: the code below reads what fn produced, which
	// is valid only once the transaction has returned.
	ctx = e.core.Telemetry.InTurn(context.WithoutCancel(ctx), d.session)
	err := errBehind
	for round := 0; errors.Is(err, errBehind); round++ {
		err = e.core.Work.InTx(ctx, func(tx store.Tx) error {
			step = newStep(e, d, tx)
			step.limitFold = round < maxCatchUps
			return step.run(outcomes, take)
		})
		if errors.Is(err, errBehind) {
			if err := e.catchUp(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	if step != nil {
		defer e.startRouted(ctx, step, &failed)
		for _, call := range step.claimed { // also if the answer was lost: the ledger may have the claims
			e.calls.NoteClaim(call.Token)
		}
	}
	if failed = err; err != nil {
		return nil, err
	}
	e.core.Telemetry.Committed(d.session, step.session, step.newEvents, step.released)
	d.row, d.session, d.Released = step.row, step.session, step.released
	for id, call := range step.claimed {
		d.claimed[id] = call
	}
	e.cache(ctx, d)
	e.core.Folds.Put(sessioncache.Fold{Session: d.session, Saved: d.snapshotSeq})
	if d.session.Turn == nil {
		e.secrets.Vault.DropTurn(d.ID, d.session.HasLiveTask)
	}
	if d.session.Lineage != nil {
		d.reportedState = e.subagents.AfterCommit(ctx, d.session, d.reportedState)
	}
	return step.due, nil
}

// catchUp applies the events that others appended, one page in each view, so that little is left
// to fold inside the driver's next commit.
func (e *Effects) catchUp(ctx context.Context, d *Drive) error {
	for n := core.FoldBatch; n == core.FoldBatch; {
		var next *perdure.Session
		err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
			next = d.session.Successor() // a view may run more than once
			n, err = core.FoldPage(r, next)
			return err
		})
		if err != nil {
			return err
		}
		d.session = next
		// the next driver of the session starts from here
		e.core.Folds.Put(sessioncache.Fold{Session: d.session, Saved: d.snapshotSeq})
	}
	return nil
}

// cache stores a snapshot from time to time and when the session is released, outside the commits
// of the turn. A snapshot is only a cache, so an error does not fail the turn.
func (e *Effects) cache(ctx context.Context, d *Drive) {
	due := int64(snapshotEvery)
	if d.Released {
		due = snapshotAtRest
	}
	if d.session.Seq-d.snapshotSeq < max(due, d.session.Seq/snapshotPart) {
		return
	}
	body, err := perdure.EncodeSnapshot(d.session)
	if err != nil {
		e.core.Log.Error("snapshot not encoded", "session", d.ID, "error", err)
		return
	}
	snapshot := store.Snapshot{Seq: d.session.Seq, Version: perdure.FoldVersion, Body: body}
	err = e.core.Work.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Sessions().Lock(d.ID, d.row.Epoch); err != nil {
			// fails if another driver has the session: its snapshot is newer
			return err
		}
		return tx.Sessions().PutSnapshot(d.ID, snapshot)
	})
	if err == nil {
		d.snapshotSeq = d.session.Seq
	}
}

// step is one run of the transaction that advances a session.
type step struct {
	e         *Effects
	d         *Drive
	tx        store.Tx
	row       store.Session
	session   *perdure.Session
	now       time.Time
	newEvents []perdure.Event // folded; appended to the journal at the end of the step
	claimed   map[perdure.CallID]perdure.Call
	routed    []taskrun.Claimed // calls that are tasks from the start
	due       []perdure.Command
	released  bool
	limitFold bool // many new events are folded before the step, not in it
}

func newStep(e *Effects, d *Drive, tx store.Tx) *step {
	return &step{e: e, d: d, tx: tx, row: d.row, session: d.session.Successor(), now: tx.Now(),
		claimed: map[perdure.CallID]perdure.Call{}}
}

// run folds what others wrote, records the outcomes, and decides until only actions are left to do.
func (s *step) run(outcomes []core.Outcome, take bool) error {
	last, err := s.lock(take)
	if err != nil {
		return err
	}
	if s.limitFold && last-s.session.Seq > core.FoldBatch {
		return errBehind
	}
	if last != s.session.Seq { // others have appended events
		if err := core.FoldToEnd(s.tx.Reader(), s.session); err != nil {
			return err
		}
	}
	s.noteInheritedStep(take)
	if err := s.resumeAfterBudget(); err != nil {
		return err
	}
	for _, outcome := range outcomes {
		if err := s.record(outcome); err != nil {
			return err
		}
	}
	if err := s.decide(); err != nil {
		return err
	}
	return s.finish()
}

// lock acquires the session, or checks that this driver still holds it, and returns the sequence
// number of its last event. From here on nobody else can append to the journal. A session that a
// live worker drives is not acquired: Elsewhere.
func (s *step) lock(take bool) (int64, error) {
	if !take {
		return s.tx.Sessions().Lock(s.d.ID, s.row.Epoch)
	}
	if s.e.core.Shared {
		row, err := s.tx.Sessions().Get(s.d.ID)
		if err != nil {
			return 0, err
		}
		// fails if another worker is acquiring it now
		if _, err := s.tx.Sessions().Lock(s.d.ID, row.Epoch); err != nil {
			return 0, err
		}
		if s.e.core.OtherWorkerAlive(s.tx.Reader(), row.Worker) {
			return 0, OwnedElsewhere
		}
	}
	row, err := s.tx.Sessions().Acquire(s.d.ID, s.e.core.Worker)
	s.row = row
	return row.LastSeq, err
}

// record adds an outcome. An outcome that is in the journal already adds nothing: its commit
// succeeded and only the answer was lost.
func (s *step) record(o core.Outcome) error {
	if s.recorded(o) {
		return nil
	}
	o, err := s.saveCheckpoint(o)
	if err != nil {
		return err
	}
	if o.Settle != nil {
		err := s.tx.Calls().Settle(o.Settle.Key, o.Settle.Token, o.Settle.State, o.Settle.Result)
		if err != nil {
			return err
		}
		if err := s.countCall(o.Settle); err != nil {
			return err
		}
	}
	if err := s.append(o.Events); err != nil {
		return err
	}
	return s.countStep(o.Events, o.Reservation)
}

// recorded reports whether the journal has the outcome, or has moved past it.
func (s *step) recorded(o core.Outcome) bool {
	turn := s.session.Turn
	for _, event := range o.Events {
		switch f := event.Fact.(type) {
		case perdure.ReasonCompleted:
			return turn == nil || turn.Phase != perdure.PhaseReasoning || turn.Exec != f.ExecID
		case perdure.ToolCompleted:
			return turn == nil || turn.ID != event.Turn || !turn.IsRunning(f.CallID)
		case perdure.ToolCallRequested:
			return turn == nil || turn.ID != event.Turn || !turn.IsRunning(f.CallID)
		case perdure.ContextCompacted:
			return turn == nil || turn.ID != event.Turn || s.session.Compacted.Drop >= f.Compaction.Drop
		case perdure.TranscriptRepaired:
			return turn == nil || !s.session.HasBreach(f)
		case perdure.CallReplanned:
			return turn == nil || turn.ID != event.Turn || !turn.InPhase(f.Call.ID, perdure.CallReplanning)
		}
	}
	return false
}

// append folds events. They are appended to the journal when the step ends.
func (s *step) append(events []perdure.Event) error {
	events = slices.Clone(events)
	core.Stamp(events, s.now)
	for _, event := range events {
		event.Session, event.Seq = s.d.ID, s.session.Seq+1
		if err := s.session.Apply(event); err != nil {
			return err
		}
		s.newEvents = append(s.newEvents, event)
		if err := s.project(event); err != nil {
			return err
		}
	}
	return nil
}

// flush appends all folded events to the journal.
func (s *step) flush() error {
	if len(s.newEvents) == 0 {
		return nil
	}
	if err := s.tx.Journal().Append(s.d.ID, s.newEvents); err != nil {
		return err
	}
	if last := s.newEvents[len(s.newEvents)-1].Seq; last != s.session.Seq {
		return fmt.Errorf("%w: the journal of %s is at seq %d, its fold at %d", perdure.Conflict, s.d.ID, last,
			s.session.Seq)
	}
	return nil
}

// project writes the rows that follow from an event of the driver.
func (s *step) project(event perdure.Event) error {
	switch f := event.Fact.(type) {
	case perdure.ApprovalRequested:
		return s.tx.Approvals().Put(f.Approval)
	case perdure.ApprovalResolved:
		a, err := s.tx.Approvals().Get(f.Approval)
		if err != nil {
			return err
		}
		return s.tx.Approvals().Put(a.Resolved(f, event.At))
	case perdure.BudgetPaused, perdure.BudgetExhausted, perdure.BudgetResumed, perdure.TurnCompleted,
		perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
		return s.recordBudget(f)
	case perdure.TaskDelivered:
		return s.markDelivered(f.TaskIDs, perdure.DeliveredInjected)
	case perdure.ToolCompleted:
		var read []perdure.TaskID
		for _, id := range f.Result.ReadTasks {
			// The result of a subagent's task is delivered in the subagent's own session.
			if task, own := s.session.Tasks[id]; own && !s.session.Turn.ReadBefore(f.CallID, task) {
				read = append(read, id)
			}
		}
		return s.markDelivered(read, perdure.DeliveredRead)
	}
	return nil
}

// markDelivered records on the outbox and on the tasks how their results were delivered.
func (s *step) markDelivered(ids []perdure.TaskID, how perdure.Delivered) error {
	for _, id := range ids {
		task, err := s.tx.Tasks().Get(s.d.ID, id)
		if err != nil {
			return err
		}
		if !task.State.Terminal() || task.Delivered != perdure.NotDelivered {
			continue // it runs again, or was delivered before
		}
		if _, err := s.tx.Tasks().ClaimDeliveries(s.d.ID, []perdure.TaskID{id}); err != nil {
			return err
		}
		if _, err := s.tx.Tasks().Update(s.d.ID, id, perdure.TaskUpdate{Attempt: task.Attempt,
			Delivered: how}); err != nil {
			return err
		}
	}
	return nil
}

// decide asks the root until every fact that follows is recorded and only actions are due.
func (s *step) decide() error {
	for {
		commands := s.session.Decide(s.moment())
		again := false
		for _, command := range commands {
			switch c := command.(type) {
			case perdure.Record:
				again = true
				events, err := s.reserveStep(c.Events)
				if err != nil {
					return err
				}
				if err := s.append(events); err != nil {
					return err
				}
			case perdure.ClaimCall:
				if s.d.Draining {
					continue
				}
				again = true
				if err := s.claim(c); err != nil {
					return err
				}
			}
		}
		if !again {
			s.due = commands
			return nil
		}
	}
}

func (s *step) moment() perdure.Moment {
	m := perdure.Moment{
		Now: s.now, Secret: s.row.Secret,
		NoProgress: s.e.core.NoProgress, ModelAttempts: s.e.core.ModelAttempts,
	}
	if s.session.Turn != nil && s.session.Turn.ID == s.d.acquiredTurn {
		m.Resumes = s.row.Resumes
	}
	return m
}

// finish writes the session's row, and releases the session if nothing is left to do.
func (s *step) finish() error {
	if err := s.flush(); err != nil {
		return err
	}
	if s.session.Title != s.row.Title || s.session.Status != s.row.Status {
		if err := s.tx.Sessions().Update(s.d.ID, s.session.Title, s.session.Status); err != nil {
			return err
		}
		s.row.Title, s.row.Status = s.session.Title, s.session.Status
	}
	for _, command := range s.due {
		if _, rest := command.(perdure.ReleaseSession); rest {
			s.released = true
			return s.tx.Sessions().Release(s.d.ID, s.row.Epoch)
		}
	}
	return nil
}
