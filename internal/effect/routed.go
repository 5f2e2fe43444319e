package effect

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
)

// claimRouted makes a call a task from its start, because the host's policy says so: placeholder, task and claim are the
// commit of its start, and it runs, or waits in the queue, by the caps of BG16 (LN2).
func (s *step) claimRouted(c perdure.ClaimCall) error {
	free, position, err := s.e.place(s.tx, s.d.ID)
	var full *noPlace
	if errors.As(err, &full) {
		refused := perdure.Refused(c.Call.ID, perdure.ErrorRejected, full.text)
		return s.tell(c.Event, perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: refused.Status(), Result: refused})
	}
	if err != nil {
		return err
	}
	row := perdure.Call{
		Key: perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}, Turn: c.Turn, Tool: c.Call.Name, Args: c.Call.Args,
		Fingerprint: c.Call.Fingerprint, Class: c.Call.Class,
	}
	owner := ownerOf(s.session)
	task := s.e.taskOfCall(callTask{
		owner: owner, row: row, at: callTime(s.session, c.Call.ID), secret: s.row.Secret, name: c.Call.DisplayName, origin: perdure.OriginRouted,
	})
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, s.now, s.now, s.now
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", s.e.cfg.Worker, 1
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = s.now, s.now, s.now.Add(s.e.deadlineOf(task.Tool))
	}
	left := perdure.ToolDetached{CallID: c.Call.ID, TaskID: task.ID, Reason: perdure.DetachedByPolicy}
	answer := placeholder(task, left)
	facts := []perdure.Fact{
		c.Event.Fact, perdure.TaskCreated{Task: task}, left,
		perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(), Result: answer},
	}
	if err := s.tell(c.Event, facts...); err != nil {
		return err
	}
	_, created, err := s.tx.CreateTask(task)
	if err != nil || !created {
		return err
	}
	claimed := claimedTask{task: task, owner: owner}
	if free {
		if claimed.row, err = s.e.claimTask(s.tx, task); err != nil {
			return err
		}
		s.e.starting.add(task.ID)
	}
	s.routed = append(s.routed, claimed)
	s.e.cfg.Log.Debug("a call is routed to the background", "call", row.Key, "task", task.ID, "position", position)
	return nil
}

// tell appends facts about one call.
func (s *step) tell(like perdure.Event, facts ...perdure.Fact) error {
	var events []perdure.Event
	for _, fact := range facts {
		event := like
		event.Fact = fact
		if created, ok := fact.(perdure.TaskCreated); ok {
			event = taskEvent(created.Task, fact)
		}
		events = append(events, event)
	}
	return s.append(events)
}

// startRouted runs the calls that a commit made tasks, also when only its answer was lost.
func (e *Effects) startRouted(ctx context.Context, s *step, failed *error) {
	for _, c := range s.routed {
		switch {
		case c.row.Token == "":
			e.cfg.Freed() // a place may have become free before it stood in the queue
		case *failed == nil || e.owns(ctx, c.row):
			e.runTask(c, freshTask)
		default:
			e.starting.drop(c.task.ID)
		}
	}
	if len(s.routed) > 0 {
		e.evict(ctx, s.d.ID)
	}
}
