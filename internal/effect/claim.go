package effect

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
)

// claim records the intent to run a call: its ledger row and its event.
func (s *step) claim(c perdure.ClaimCall) error {
	if withheld, err := s.withhold(c); err != nil || withheld {
		return err
	}
	if affordable, err := s.reserveCall(c); err != nil || !affordable {
		return err
	}
	if c.Call.Lane == perdure.Background {
		return s.claimRouted(c)
	}
	key := perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}
	call := perdure.Call{
		Key: key, Turn: c.Turn, Tool: c.Call.Name, Args: c.Call.Args,
		Fingerprint: c.Call.Fingerprint, Class: c.Call.Class,
		Token: core.NewToken(), Worker: s.e.core.Worker, Epoch: s.row.Epoch,
	}
	t, _ := s.e.toolset.Find(c.Call.Name)
	call.Home = s.e.core.HomeOf(t)
	outcome, row, err := s.tx.Calls().Claim(call, s.e.core.WorkerAlive(s.tx.Reader()))
	if err != nil {
		return err
	}
	if outcome == perdure.Claimed {
		s.claimed[c.Call.ID] = row
		return s.append([]perdure.Event{c.Event})
	}
	if err := s.releaseReservation(c.Call.ID); err != nil {
		return err
	}
	return s.answerClaimed(c, outcome, row)
}

// answerClaimed answers a call whose row exists although the journal has no start of it. Row and
// event are written in one commit, so either the call id was reused with other content, or the
// ledger was changed from outside.
func (s *step) answerClaimed(c perdure.ClaimCall, outcome perdure.ClaimOutcome, row perdure.Call) error {
	var result perdure.ToolResult
	switch {
	case outcome == perdure.AlreadySettled && row.Result != nil:
		result = *row.Result
	case outcome == perdure.DeterminismViolation:
		s.e.core.Log.Error("determinism violation", "session", s.d.ID, "call", c.Call.ID, "stored", row.Fingerprint,
			"current", c.Call.Fingerprint)
		result = perdure.Refused(c.Call.ID, perdure.ErrorDeterminism,
			"this call id was used before with different content")
	case outcome == perdure.AlreadyUnknown:
		result = perdure.Failed(c.Call.ID, perdure.ErrorUnknown, perdure.TextUnknown)
	default:
		return fmt.Errorf("call %s: %w: another worker runs it", row.Key, perdure.Conflict)
	}
	event := c.Event
	event.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: result.Status(), Result: result,
		Replayed: true}
	return s.append([]perdure.Event{event})
}

// withhold answers a call with the unknown outcome of an identical earlier call, instead of
// claiming it.
func (s *step) withhold(c perdure.ClaimCall) (bool, error) {
	if s.session.Agent.DryRun {
		return false, nil
	}
	by, found, err := s.e.admission.FindUnresolved(s.tx.Reader(), admission.Repeat{
		Key: perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}, Class: c.Call.Class,
		Print: c.Call.Fingerprint, Despite: c.Call.RepeatOf,
	})
	if err != nil || !found {
		return false, err
	}
	answer := (&admission.DuplicateError{By: by}).Answer(c.Call.ID)
	return true, s.appendFacts(c.Event, perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(),
		Result: answer})
}

// claimRouted makes a call a task from the start, because the host's policy routes it to the
// background. Placeholder, task and claim are part of the commit that starts the call. The task
// runs or queues, as the limits allow.
func (s *step) claimRouted(c perdure.ClaimCall) error {
	free, position, err := s.e.records.CanStart(s.tx.Reader(), s.d.ID)
	var full *perdure.NoSlot
	if errors.As(err, &full) {
		if err := s.releaseReservation(c.Call.ID); err != nil {
			return err
		}
		refused := perdure.Refused(c.Call.ID, perdure.ErrorRejected, full.Text)
		return s.appendFacts(c.Event, perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: refused.Status(),
			Result: refused})
	}
	if err != nil {
		return err
	}
	row := perdure.Call{
		Key: perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}, Turn: c.Turn, Tool: c.Call.Name, Args: c.Call.Args,
		Fingerprint: c.Call.Fingerprint, Class: c.Call.Class,
	}
	owner := core.OwnerOf(s.session).Of(s.row)
	task := s.e.records.OfCall(taskrecord.Call{
		Owner: owner, Row: row, At: core.CallTime(s.session, c.Call.ID), Secret: s.row.Secret,
		Name: c.Call.DisplayName, Origin: perdure.OriginRouted,
	})
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, s.now, s.now, s.now
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", s.e.core.Worker, 1
		task.Home = s.e.records.HomeOf(task)
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = s.now, s.now, s.now.Add(s.e.toolset.DeadlineOf(task))
	}
	left := perdure.ToolDetached{CallID: c.Call.ID, TaskID: task.ID, Reason: perdure.DetachedByPolicy}
	answer := taskrecord.Placeholder(task, left)
	facts := []perdure.Fact{
		c.Event.Fact, perdure.TaskCreated{Task: task}, left,
		perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(), Result: answer},
	}
	if err := s.appendFacts(c.Event, facts...); err != nil {
		return err
	}
	_, created, err := s.tx.Tasks().Create(task)
	if err != nil || !created {
		return err
	}
	claimed := taskrun.Claimed{Task: task, Owner: owner}
	if free {
		if claimed.Row, err = s.e.records.Claim(s.tx, task); err != nil {
			return err
		}
		s.e.tasks.Starting.Add(task.ID)
	}
	s.routed = append(s.routed, claimed)
	s.e.core.Log.Debug("call routed to the background", "call", row.Key, "task", task.ID, "position", position)
	return nil
}

// appendFacts appends facts about one call.
func (s *step) appendFacts(like perdure.Event, facts ...perdure.Fact) error {
	var events []perdure.Event
	for _, fact := range facts {
		event := like
		event.Fact = fact
		if created, ok := fact.(perdure.TaskCreated); ok {
			event = taskrecord.Event(created.Task, fact)
		}
		events = append(events, event)
	}
	return s.append(events)
}

// startRouted runs the calls that a commit made tasks. They run even if only the answer of the
// commit was lost.
func (e *Effects) startRouted(ctx context.Context, s *step, failed *error) {
	for _, c := range s.routed {
		switch {
		case c.Row.Token == "":
			e.core.StartQueued() // a slot may have become free before it was queued
		case *failed == nil || e.tasks.OwnsClaim(ctx, c.Row):
			e.tasks.Run(c, taskrun.FreshTask)
		default:
			e.tasks.Starting.Drop(c.Task.ID)
		}
	}
	if len(s.routed) > 0 {
		e.tasks.Evict(ctx, s.d.ID)
	}
}
