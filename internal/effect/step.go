package effect

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
)

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
	if take && last < s.session.Seq {
		return errReplaced
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
// live worker drives is not acquired: OwnedElsewhere.
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
		if err := s.e.core.Use(s.tx, s.d.grant, store.Work{Session: s.d.ID}); err != nil {
			return 0, err
		}
		if err := s.e.core.MayTake(s.tx.Reader(), s.d.grant, row.Worker); err != nil {
			return 0, err
		}
		if err := s.e.core.MayDrive(s.tx.Reader(), row); err != nil {
			return 0, err
		}
		if err := s.checkHome(row); err != nil {
			return 0, err
		}
	}
	row, err := s.tx.Sessions().Acquire(s.d.ID, s.e.core.Worker)
	s.row = row
	return row.LastSeq, err
}

// checkHome refuses a session whose files are at another home, or whose dead driver left calls with
// remains that only another home can judge: AtAnotherHome. A session that was released has none.
func (s *step) checkHome(row store.Session) error {
	if !s.e.core.FilesElsewhere(row) && (row.Worker == "" || row.Worker == s.e.core.Worker) {
		return nil
	}
	home, err := s.e.HomeOfWork(s.tx.Reader(), row)
	if err == nil && home != "" {
		err = fmt.Errorf("%w: %s", AtAnotherHome, core.HomeName(s.tx.Reader(), home))
	}
	return err
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
		event, err := s.withImages(event)
		if err != nil {
			return err
		}
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
		NoProgress: s.e.core.Limits.NoProgress, ModelAttempts: s.e.core.Limits.ModelAttempts,
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

// saveCheckpoint stores and removes checkpoints in the commit of an outcome, and returns the
// outcome that applies.
func (s *step) saveCheckpoint(o core.Outcome) (core.Outcome, error) {
	if turn := s.session.Turn; o.IfEnding != nil && turn != nil && turn.Interrupt != nil {
		o = *o.IfEnding
	}
	if o.Checkpoint != nil {
		if err := s.tx.Journal().PutPartial(*o.Checkpoint); err != nil {
			return o, err
		}
	}
	if o.DropCheckpoint != "" {
		return o, s.tx.Journal().DropPartial(s.d.ID, o.DropCheckpoint)
	}
	return o, nil
}

// noteInheritedStep notes which reason step was open when the driver acquired the session.
func (s *step) noteInheritedStep(take bool) {
	if turn := s.session.Turn; take {
		s.d.inheritedExec = ""
		if turn != nil && turn.Phase == perdure.PhaseReasoning {
			s.d.inheritedExec = turn.Exec
		}
	}
}
