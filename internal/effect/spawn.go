package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// spawn starts a background run of a tool, or queues it. The task, its claim and its event are one
// commit. The ids are derived, so that a call spawns once, however often it runs. The run starts
// from what the commit knew; nothing is read in between.
func (e *Effects) spawn(ctx context.Context, o taskrecord.Request) (tool.SpawnResult, error) {
	spawned, err := e.spawnAs(ctx, o)
	if errors.Is(err, taskrecord.ErrOwnTask) {
		o.OwnTask = true
		return e.spawnAs(ctx, o)
	}
	return spawned, err
}

func (e *Effects) spawnAs(ctx context.Context, o taskrecord.Request) (tool.SpawnResult, error) {
	row, err := e.core.SessionRow(ctx, o.Owner.Session)
	if err != nil {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.Task.Tool, err)
	}
	task := o.WithIDs(row.Secret)
	if err := e.prepareTask(ctx, task, 1); err != nil {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.Task.Tool, err)
	}
	var claimed perdure.Call
	var spawned tool.SpawnResult
	e.starting.add(task.ID)
	err = e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		var err error
		spawned, claimed, err = e.records.SpawnIn(tx, o, task)
		return err
	})
	started := claimed.Token != "" && (err == nil || e.ownsClaim(ctx, claimed))
	if started {
		e.runTask(claimedTask{task: spawned.Task, row: claimed, owner: o.Owner}, freshTask)
	} else {
		e.starting.drop(task.ID)
		e.core.SlotFreed() // a slot may have become free before the run was queued
	}
	e.core.Wake(o.Owner.Session)
	// The task may be stored, queued or waiting for an approval.
	if err != nil && !started && !core.RefusedWrite(err) && !errors.Is(err, perdure.Limit) {
		var stored perdure.Task
		found := e.core.ReadBack(ctx, func(r store.Reader) (err error) {
			stored, err = r.Tasks().Get(task.Session, task.ID)
			return err
		})
		if found == nil {
			return tool.SpawnResult{Task: stored}, nil
		}
	}
	if err != nil && !started {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.Task.Tool, err)
	}
	e.evict(ctx, o.Owner.Session)
	return spawned, nil
}

// evict cancels the oldest live background tasks of a session that has more than the limit, if that
// is the overflow policy. The newest task is never evicted.
func (e *Effects) evict(ctx context.Context, session perdure.SessionID) {
	for e.core.Overflow == perdure.OverflowEvict && e.core.EvictCap > 0 {
		var live []perdure.Task
		err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
			live, err = r.Tasks().List(store.TaskFilter{Session: session, States: []perdure.TaskState{
				perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput,
			}})
			return err
		})
		live = slices.DeleteFunc(live, func(t perdure.Task) bool {
			// already being canceled, or of another kind
			return t.CancelRequested() || t.Kind != perdure.KindBackgroundTool && t.Kind != perdure.KindExternalAgent
		})
		if err != nil || e.core.Overflow.Excess(e.records.SlotCaps(), len(live)) == 0 {
			return // if it could not be read, the next start counts again
		}
		oldest := live[0]
		e.core.Log.Warn("background task evicted", "task", oldest.ID, "tool", oldest.Tool, "session", session,
			"cap", e.core.EvictCap)
		if _, err := e.CancelTask(ctx, oldest.ID, taskrecord.CancelIntent{By: "system", Why: "evicted"}); err != nil {
			e.core.Log.Error("background task not evicted", "task", oldest.ID, "error", err)
			return
		}
	}
}

// ownsClaim reads back whether a claim is stored whose commit lost its answer.
func (e *Effects) ownsClaim(ctx context.Context, claimed perdure.Call) bool {
	if claimed.Token == "" {
		return false
	}
	var row perdure.Call
	err := e.core.ReadBack(ctx, func(r store.Reader) (err error) {
		row, err = r.Calls().Get(claimed.Key)
		return err
	})
	return err == nil && row.Token == claimed.Token
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
	owner := core.OwnerOf(s.session)
	task := s.e.records.OfCall(taskrecord.Call{
		Owner: owner, Row: row, At: core.CallTime(s.session, c.Call.ID), Secret: s.row.Secret,
		Name: c.Call.DisplayName, Origin: perdure.OriginRouted,
	})
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, s.now, s.now, s.now
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", s.e.core.Worker, 1
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
	claimed := claimedTask{task: task, owner: owner}
	if free {
		if claimed.row, err = s.e.records.Claim(s.tx, task); err != nil {
			return err
		}
		s.e.starting.add(task.ID)
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
		case c.row.Token == "":
			e.core.SlotFreed() // a slot may have become free before it was queued
		case *failed == nil || e.ownsClaim(ctx, c.row):
			e.runTask(c, freshTask)
		default:
			e.starting.drop(c.task.ID)
		}
	}
	if len(s.routed) > 0 {
		e.evict(ctx, s.d.ID)
	}
}
