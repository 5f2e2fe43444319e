package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/foldcache"
	"github.com/perdure/perdure/store"
)

// How many events lie between two snapshots of a session (O8): at any time, and when it comes to rest, so that
// a short turn costs no commit for a cache. A snapshot holds the whole session, so the longer the journal, the more
// events lie between two: a part of it, which keeps the cost of an event the same.
const (
	snapshotEvery  = 500
	snapshotAtRest = 50
	snapshotPart   = 8
)

// A step folds up to foldBatch events of others in its commit. Where there are more, as after a call that wrote many files, they
// are folded before it, up to approaches times.
const (
	foldBatch  = 1000
	approaches = 5
)

// errBehind says that there is too much to fold in a commit, and nothing is to be committed.
var errBehind = errors.New("much was written by others")

// Drive is a session in the hands of its one driver, under an epoch (O2). It is not safe for concurrent use.
type Drive struct {
	ID      perdure.SessionID
	row     store.Session
	session *perdure.Session                // as of the last commit
	taken   perdure.TurnID                  // the turn that was found when the session was taken
	saved   int64                           // seq of the last snapshot
	asked   perdure.ExecID                  // the reason step that was found begun when the session was taken
	claimed map[perdure.CallID]perdure.Call // by the last commits, and not started yet
	Rested  bool                            // the last commit let the session go
	told    string                          // of a subagent: what the parent was told last
	// Draining keeps new calls from being claimed: the engine stops (RC11).
	Draining bool
}

// Epoch is under which the session was taken: the fence of all that its driver writes (O2).
func (d *Drive) Epoch() int64 { return d.row.Epoch }

// Session returns the fold as of the last commit. The caller must not change it.
func (d *Drive) Session() *perdure.Session { return d.session }

// Outcome is what one carried-out command came to: its events, and the settlement that goes with them.
type Outcome struct {
	Events []perdure.Event
	Settle *Settlement
	Keep   *store.Partial    // the text of a message that stays open (TN20); nil: none
	Drop   perdure.MessageID // whose checkpoint goes; empty: none does, at no cost (TN19)
	Ending *Outcome          // counts instead when the turn is to end: the message has no next attempt; nil: this one does
	Work   string            // under which a question was reserved that is no step; empty: none was
}

// Settlement ends a claim in the commit of its event (LG7).
type Settlement struct {
	Key    perdure.CallKey
	Token  perdure.Token
	State  perdure.CallState
	Result perdure.ToolResult
}

// Take makes this worker the driver of a session and returns what is due. What the decision records is in
// the same commit as the taking.
func (e *Effects) Take(ctx context.Context, id perdure.SessionID) (*Drive, []perdure.Command, error) {
	d := &Drive{ID: id, claimed: map[perdure.CallID]perdure.Call{}}
	if err := e.fold(ctx, d); err != nil {
		return nil, nil, fmt.Errorf("take %s: %w", id, err)
	}
	if d.session.Turn != nil {
		d.taken = d.session.Turn.ID
	}
	commands, err := e.commit(ctx, d, nil, true)
	if err != nil {
		return nil, nil, fmt.Errorf("take %s: %w", id, err)
	}
	return d, commands, nil
}

// fold brings the session to where this process left it, or else to where the journal is.
func (e *Effects) fold(ctx context.Context, d *Drive) error {
	if last, ok := e.folds.Get(d.ID); ok {
		d.session, d.saved = last.Session, last.Saved
		return nil
	}
	return e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		d.session, d.saved, err = foldSaved(r, d.ID)
		return err
	})
}

// Commit records outcomes together with what follows from them, and returns what is due next. Lost: another
// driver has the session; stop without another word.
func (e *Effects) Commit(ctx context.Context, d *Drive, outcomes []Outcome) ([]perdure.Command, error) {
	commands, err := e.commit(ctx, d, outcomes, false)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", d.ID, err)
	}
	return commands, nil
}

func (e *Effects) commit(ctx context.Context, d *Drive, outcomes []Outcome, take bool) ([]perdure.Command, error) {
	var step *step
	var failed error
	ctx = e.cfg.Telemetry.InTurn(context.WithoutCancel(ctx), d.session) // nobody leaves before the answer: what fn made is read after it
	err := errBehind
	for round := 0; errors.Is(err, errBehind); round++ {
		err = e.work.InTx(ctx, func(tx store.Tx) error {
			step = newStep(e, d, tx)
			step.patient = round < approaches
			return step.run(outcomes, take)
		})
		if errors.Is(err, errBehind) {
			if err := e.approach(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	if step != nil {
		defer e.startRouted(ctx, step, &failed)
		for _, call := range step.claimed { // also when the answer was lost: the ledger may have them (LG5)
			e.unstarted.Store(call.Token, perdure.TakeOver(""))
		}
	}
	if failed = err; err != nil {
		return nil, err
	}
	e.cfg.Telemetry.Committed(d.session, step.session, step.fresh, step.rested)
	d.row, d.session, d.Rested = step.row, step.session, step.rested
	for id, call := range step.claimed {
		d.claimed[id] = call
	}
	e.cache(ctx, d)
	e.folds.Keep(foldcache.Fold{Session: d.session, Saved: d.saved})
	if d.session.Turn == nil {
		e.vault.DropTurn(d.ID, d.session.Carries)
	}
	if d.session.Lineage != nil {
		e.afterChild(ctx, d)
	}
	return step.due, nil
}

// cache writes a snapshot every now and then and at rest, outside the turn's commits. It is only a cache, so
// a failure to write it is not one of the turn.
func (e *Effects) cache(ctx context.Context, d *Drive) {
	due := int64(snapshotEvery)
	if d.Rested {
		due = snapshotAtRest
	}
	if d.session.Seq-d.saved < max(due, d.session.Seq/snapshotPart) {
		return
	}
	body, err := perdure.EncodeSnapshot(d.session)
	if err != nil {
		e.cfg.Log.Error("a snapshot cannot be encoded", "session", d.ID, "error", err)
		return
	}
	snapshot := store.Snapshot{Seq: d.session.Seq, Version: perdure.FoldVersion, Body: body}
	err = e.work.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(d.ID, d.row.Epoch); err != nil { // the next driver's snapshot is a newer one
			return err
		}
		return tx.PutSnapshot(d.ID, snapshot)
	})
	if err == nil {
		d.saved = d.session.Seq
	}
}

// step is one run of the transaction that moves a session on.
type step struct {
	e       *Effects
	d       *Drive
	tx      store.Tx
	row     store.Session
	session *perdure.Session
	now     time.Time
	fresh   []perdure.Event // folded, and appended to the journal at the end of the step
	claimed map[perdure.CallID]perdure.Call
	routed  []claimedTask // calls that are tasks from the start
	due     []perdure.Command
	rested  bool
	patient bool // much that others wrote is folded before the step, and not in it
}

func newStep(e *Effects, d *Drive, tx store.Tx) *step {
	return &step{e: e, d: d, tx: tx, row: d.row, session: d.session.Successor(), now: tx.Now(), claimed: map[perdure.CallID]perdure.Call{}}
}

// run folds what others wrote, records the outcomes, and decides until only acts are left.
func (s *step) run(outcomes []Outcome, take bool) error {
	last, err := s.lock(take)
	if err != nil {
		return err
	}
	if s.patient && last-s.session.Seq > foldBatch {
		return errBehind
	}
	if last != s.session.Seq { // others wrote
		if err := catchUp(s.tx, s.session); err != nil {
			return err
		}
	}
	s.findAsked(take)
	if err := s.revive(); err != nil {
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

// lock takes the session, or checks that it is still ours, and returns the seq of its last event. From now on
// nobody else writes to its journal. A session is not taken from a worker that lives: Elsewhere.
func (s *step) lock(take bool) (int64, error) {
	if !take {
		return s.tx.LockSession(s.d.ID, s.row.Epoch)
	}
	if s.e.cfg.Shared {
		row, err := s.tx.Session(s.d.ID)
		if err != nil {
			return 0, err
		}
		if _, err := s.tx.LockSession(s.d.ID, row.Epoch); err != nil { // somebody takes it right now
			return 0, err
		}
		if s.e.elsewhere(s.tx, row.Worker) {
			return 0, Elsewhere
		}
	}
	row, err := s.tx.TakeSession(s.d.ID, s.e.cfg.Worker)
	s.row = row
	return row.LastSeq, err
}

// record adds an outcome. One that is in the journal already, because the answer of its commit was lost,
// adds nothing.
func (s *step) record(o Outcome) error {
	if s.recorded(o) {
		return nil
	}
	o, err := s.keep(o)
	if err != nil {
		return err
	}
	if o.Settle != nil {
		err := s.tx.Settle(o.Settle.Key, o.Settle.Token, o.Settle.State, o.Settle.Result)
		if err != nil {
			return err
		}
		if err := s.payCall(o.Settle); err != nil {
			return err
		}
	}
	if err := s.append(o.Events); err != nil {
		return err
	}
	return s.payStep(o.Events, o.Work)
}

// recorded reports whether the journal has the outcome, or has gone on without it.
func (s *step) recorded(o Outcome) bool {
	turn := s.session.Turn
	for _, event := range o.Events {
		switch f := event.Fact.(type) {
		case perdure.ReasonCompleted:
			return turn == nil || turn.Phase != perdure.PhaseReasoning || turn.Exec != f.ExecID
		case perdure.ToolCompleted:
			return turn == nil || turn.ID != event.Turn || !turn.InWork(f.CallID)
		case perdure.ToolCallRequested:
			return turn == nil || turn.ID != event.Turn || !turn.InWork(f.CallID)
		case perdure.ContextCompacted:
			return turn == nil || turn.ID != event.Turn || s.session.Compacted.Drop >= f.Compaction.Drop
		case perdure.TranscriptRepaired:
			return turn == nil || !s.session.Breaks(f)
		case perdure.CallReplanned:
			return turn == nil || turn.ID != event.Turn || !turn.InPhase(f.Call.ID, perdure.CallReplanning)
		}
	}
	return false
}

// append folds events. They stand in the journal when the step ends.
func (s *step) append(events []perdure.Event) error {
	events = slices.Clone(events)
	stamp(events, s.now)
	for _, event := range events {
		event.Session, event.Seq = s.d.ID, s.session.Seq+1
		if err := s.session.Apply(event); err != nil {
			return err
		}
		s.fresh = append(s.fresh, event)
		if err := s.project(event); err != nil {
			return err
		}
	}
	return nil
}

// flush appends what was folded to the journal, all of it at once.
func (s *step) flush() error {
	if len(s.fresh) == 0 {
		return nil
	}
	if err := s.tx.Append(s.d.ID, s.fresh); err != nil {
		return err
	}
	if last := s.fresh[len(s.fresh)-1].Seq; last != s.session.Seq {
		return fmt.Errorf("%w: the journal of %s is at seq %d, its fold at %d", perdure.Conflict, s.d.ID, last, s.session.Seq)
	}
	return nil
}

// project writes the rows that an event of the driver describes.
func (s *step) project(event perdure.Event) error {
	switch f := event.Fact.(type) {
	case perdure.ApprovalRequested:
		return s.tx.PutApproval(f.Approval)
	case perdure.ApprovalResolved:
		a, err := s.tx.Approval(f.Approval)
		if err != nil {
			return err
		}
		return s.tx.PutApproval(a.Resolved(f, event.At))
	case perdure.BudgetPaused, perdure.BudgetExhausted, perdure.BudgetResumed, perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
		return s.noteBudget(f)
	case perdure.TaskDelivered:
		return s.cameHome(f.TaskIDs, perdure.DeliveredInjected)
	case perdure.ToolCompleted:
		var read []perdure.TaskID
		for _, id := range f.Result.Read {
			if task, own := s.session.Tasks[id]; own && !s.session.Turn.ReadBefore(f.CallID, task) { // a subagent's task comes home there
				read = append(read, id)
			}
		}
		return s.cameHome(read, perdure.DeliveredRead)
	}
	return nil
}

// cameHome notes on the outbox and on the tasks what became of their results (DL2, DL5).
func (s *step) cameHome(ids []perdure.TaskID, how perdure.Delivered) error {
	for _, id := range ids {
		task, err := s.tx.Task(s.d.ID, id)
		if err != nil {
			return err
		}
		if !task.State.Terminal() || task.Delivered != perdure.NotDelivered {
			continue // it runs again, or came home before
		}
		if _, err := s.tx.ClaimDeliveries(s.d.ID, []perdure.TaskID{id}); err != nil {
			return err
		}
		if _, err := s.tx.UpdateTask(s.d.ID, id, perdure.TaskUpdate{Attempt: task.Attempt, Delivered: how}); err != nil {
			return err
		}
	}
	return nil
}

// decide asks the root again and again, until every fact that follows is recorded and only acts are due.
func (s *step) decide() error {
	for {
		commands := s.session.Decide(s.moment())
		again := false
		for _, command := range commands {
			switch c := command.(type) {
			case perdure.Record:
				again = true
				events, err := s.afford(c.Events)
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
		NoProgress: s.e.cfg.NoProgress, ModelAttempts: s.e.cfg.ModelAttempts,
	}
	if s.session.Turn != nil && s.session.Turn.ID == s.d.taken {
		m.TakeUps = s.row.TakeUps
	}
	return m
}

// finish writes the session's row and lets it go when nothing is left to do.
func (s *step) finish() error {
	if err := s.flush(); err != nil {
		return err
	}
	if s.session.Title != s.row.Title || s.session.Status != s.row.Status {
		if err := s.tx.SaveSession(s.d.ID, s.session.Title, s.session.Status); err != nil {
			return err
		}
		s.row.Title, s.row.Status = s.session.Title, s.session.Status
	}
	for _, command := range s.due {
		if _, rest := command.(perdure.Rest); rest {
			s.rested = true
			return s.tx.ReleaseSession(s.d.ID, s.row.Epoch)
		}
	}
	return nil
}
