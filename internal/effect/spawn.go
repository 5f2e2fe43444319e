package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// spawnRequest is a background run as it was requested.
type spawnRequest struct {
	owner *core.Owner
	at    time.Time    // time of the message that requests it; the ids derive from it
	task  perdure.Task // without the fields that only the store knows

	permissions []perdure.Permission // an approval is needed for them first
	// repeats is the call or task of unknown outcome that the run knowingly repeats as a new
	// effect; empty: none.
	repeats string
	// fromSchedule says that a schedule starts the run. Each fire is an effect of its own, so
	// identical runs are not withheld.
	fromSchedule bool
	// acquireTask says that the call that spawns the run has itself become a task, and so has taken
	// the ids that the run would have.
	ownTask bool
}

// spawn starts a background run of a tool, or queues it. The task, its claim and its event are one
// commit. The ids are derived, so that a call spawns once, however often it runs. The run starts
// from what the commit knew; nothing is read in between.
func (e *Effects) spawn(ctx context.Context, o spawnRequest) (tool.SpawnResult, error) {
	spawned, err := e.spawnAs(ctx, o)
	if errors.Is(err, errOwnTask) {
		o.ownTask = true
		return e.spawnAs(ctx, o)
	}
	return spawned, err
}

// errOwnTask says that the derived ids belong to the task that the call itself became.
var errOwnTask = fmt.Errorf("%w: the call is the task with these ids", perdure.Conflict)

func (e *Effects) spawnAs(ctx context.Context, o spawnRequest) (tool.SpawnResult, error) {
	row, err := e.core.SessionRow(ctx, o.owner.Session)
	if err != nil {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.task.Tool, err)
	}
	task := o.withIDs(row.Secret)
	if err := e.prepareTask(ctx, task, 1); err != nil {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.task.Tool, err)
	}
	var claimed perdure.Call
	var spawned tool.SpawnResult
	e.starting.add(task.ID)
	err = e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		var err error
		spawned, claimed, err = e.spawnIn(tx, o, task)
		return err
	})
	started := claimed.Token != "" && (err == nil || e.ownsClaim(ctx, claimed))
	if started {
		e.runTask(claimedTask{task: spawned.Task, row: claimed, owner: o.owner}, freshTask)
	} else {
		e.starting.drop(task.ID)
		e.core.SlotFreed() // a slot may have become free before the run was queued
	}
	e.core.Wake(o.owner.Session)
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
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.task.Tool, err)
	}
	e.evict(ctx, o.owner.Session)
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
		if err != nil || e.core.Overflow.Excess(e.slotCaps(), len(live)) == 0 {
			return // if it could not be read, the next start counts again
		}
		oldest := live[0]
		e.core.Log.Warn("background task evicted", "task", oldest.ID, "tool", oldest.Tool, "session", session,
			"cap", e.core.EvictCap)
		if _, err := e.CancelTask(ctx, oldest.ID, CancelIntent{By: "system", Why: "evicted"}); err != nil {
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

// withIDs returns the task with its derived ids.
func (o spawnRequest) withIDs(secret perdure.Secret) perdure.Task {
	t := o.task
	parts := []string{string(t.Session), string(t.Call)}
	if o.ownTask {
		parts = append(parts, "spawned")
	}
	t.ID = perdure.DeriveID[perdure.TaskID](secret, o.at, parts...)
	t.Run = perdure.DeriveID[perdure.RunID](secret, o.at, parts...)
	if o.owner != nil {
		t.Trace = o.owner.Trace
	}
	return t
}

// spawnIn adds the task: running if there is a slot, otherwise queued if the policy allows it.
func (e *Effects) spawnIn(tx store.Tx, o spawnRequest, task perdure.Task) (tool.SpawnResult, perdure.Call, error) {
	if stored, err := tx.Tasks().Get(task.Session, task.ID); err == nil {
		if stored.FromCall() {
			return tool.SpawnResult{}, perdure.Call{}, errOwnTask
		}
		return tool.SpawnResult{Task: stored}, perdure.Call{}, nil // spawned before
	}
	if !o.fromSchedule {
		if err := e.admission.WithholdTask(tx.Reader(), task, admission.Repeat{Despite: o.repeats}); err != nil {
			return tool.SpawnResult{}, perdure.Call{}, err
		}
	}
	if len(o.permissions) > 0 {
		if err := e.reserveTask(tx, o.owner, task); err != nil {
			return tool.SpawnResult{}, perdure.Call{}, err
		}
		spawned, err := e.awaitApproval(tx, task, o.permissions)
		return spawned, perdure.Call{}, err
	}
	free, position, err := e.canStart(tx.Reader(), task.Session)
	if err == nil {
		err = e.reserveTask(tx, o.owner, task) // last, so that a refused run has written nothing
	}
	if err != nil {
		return tool.SpawnResult{}, perdure.Call{}, err
	}
	task.State, task.Attempt, task.Delivered = perdure.TaskQueued, 1, perdure.NotDelivered
	task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
	var claimed perdure.Call
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", e.core.Worker, 1
		task.StartedAt, task.HeartbeatAt = task.CreatedAt, task.CreatedAt
		task.DeadlineAt = task.CreatedAt.Add(e.toolset.DeadlineOf(task))
	}
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task})}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return tool.SpawnResult{}, claimed, err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil {
		return tool.SpawnResult{}, claimed, err
	}
	if free {
		if claimed, err = e.claimTask(tx, task); err != nil {
			return tool.SpawnResult{}, claimed, err
		}
		position = 0
	}
	return tool.SpawnResult{Task: task, Position: position}, claimed, nil
}

// awaitApproval adds a task that waits for an approval before it runs. It holds no slot while it
// waits.
func (e *Effects) awaitApproval(tx store.Tx, task perdure.Task, permissions []perdure.Permission) (tool.SpawnResult, error) {
	session, err := tx.Sessions().Get(task.Session)
	if err != nil {
		return tool.SpawnResult{}, err
	}
	task.State, task.Attempt, task.Delivered = perdure.TaskAwaitingInput, 1, perdure.NotDelivered
	task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
	task.InputRequest = &perdure.InputRequest{
		ID:   perdure.DeriveID[perdure.RequestID](session.Secret, task.CreatedAt, string(task.ID)),
		Kind: "approval", Prompt: task.DisplayName,
	}
	approval := e.approvalOf(task, permissions, task.DisplayName, tx.Now())
	approval.ID = perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(task.ID))
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task}),
		taskEvent(task, perdure.ApprovalRequested{Approval: approval})}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return tool.SpawnResult{}, err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil {
		return tool.SpawnResult{}, err
	}
	return tool.SpawnResult{Task: task}, tx.Approvals().Put(approval)
}

// canStart is place for a new run. An engine that does not run claims nothing: its worker is not
// registered yet, and other workers would treat the claim as that of a dead worker. The run waits
// in the queue for the next start.
func (e *Effects) canStart(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	free, position, err = e.slotFor(tx, session)
	if free && !e.core.EngineRunning() {
		return false, 1, err
	}
	return free, position, err
}

// slotFor reports whether a run of a session may start now, and otherwise its position in the
// queue. Limit: neither. The limits are counted in the store; work that was stopped but has not
// returned counts too.
func (e *Effects) slotFor(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	counts, err := tx.Tasks().Count(perdure.TaskRunning, session)
	if err != nil {
		return false, 0, err
	}
	running := 0
	if len(counts) > 0 {
		running = counts[0].Slots()
	}
	queued, err := countTasks(tx, perdure.TaskQueued, session)
	if err != nil {
		return false, 0, err
	}
	ofSession, ofProcess := 0, 0
	if e.core.SlotsPerSession > 0 || e.core.SlotsPerProcess > 0 { // counting takes time if there are many
		ofSession, ofProcess = e.core.Runner.SlotsInUse(session)
	}
	use := perdure.SlotUsage{PerSession: max(running, ofSession), PerProcess: ofProcess, Queued: queued}
	return e.core.Overflow.Admit(e.slotCaps(), use)
}

// slotCaps returns the limits for the background runs of this worker.
func (e *Effects) slotCaps() perdure.SlotCaps {
	return perdure.SlotCaps{
		PerSession: e.core.SlotsPerSession, PerProcess: e.core.SlotsPerProcess, Detached: e.core.MaxDetached,
		Queued: e.core.QueueLength, Live: e.core.EvictCap,
	}
}

// countTasks counts the tasks of a session in one state.
func countTasks(r store.Reader, state perdure.TaskState, session perdure.SessionID) (int, error) {
	counts, err := r.Tasks().Count(state, session)
	if err != nil || len(counts) == 0 {
		return 0, err
	}
	return counts[0].N, nil
}

// claimTask claims the ledger row of a task: a new row, or that of an earlier execution.
func (e *Effects) claimTask(tx store.Tx, task perdure.Task) (perdure.Call, error) {
	fingerprint, err := perdure.Fingerprint(task.Tool, task.Spec.Arguments)
	if err != nil {
		return perdure.Call{}, err
	}
	next := perdure.Call{
		Key: task.LedgerKey(), Turn: task.Turn, Task: task.ID, Attempt: task.Attempt,
		Tool: task.Tool, Args: task.Spec.Arguments,
		Fingerprint: fingerprint, Class: task.Class, Token: core.NewToken(), Worker: e.core.Worker,
	}
	outcome, row, err := tx.Calls().Claim(next, e.core.WorkerAlive(tx.Reader()))
	if err != nil || outcome == perdure.Claimed {
		return row, err
	}
	old := row
	row.Token, row.Worker, row.Attempt, row.Executions = next.Token, next.Worker, task.Attempt, task.Executions
	switch outcome {
	case perdure.AlreadyUnknown: // an operator resolved it as run_again
		row.State, row.Result = perdure.CallRunning, nil
		return row, tx.Calls().Resolve(row, "operator")
	case perdure.ClaimAbandoned, perdure.ClaimConflict:
		return row, tx.Calls().TakeOver(old, row)
	}
	return row, fmt.Errorf("claim the run of task %s: %w: %s", task.ID, perdure.Conflict, outcome)
}

// claimRouted makes a call a task from the start, because the host's policy routes it to the
// background. Placeholder, task and claim are part of the commit that starts the call. The task
// runs or queues, as the limits allow.
func (s *step) claimRouted(c perdure.ClaimCall) error {
	free, position, err := s.e.canStart(s.tx.Reader(), s.d.ID)
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
	task := s.e.taskOfCall(callTask{
		owner: owner, row: row, at: core.CallTime(s.session, c.Call.ID), secret: s.row.Secret,
		name: c.Call.DisplayName, origin: perdure.OriginRouted,
	})
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, s.now, s.now, s.now
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", s.e.core.Worker, 1
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = s.now, s.now, s.now.Add(s.e.toolset.DeadlineOf(task))
	}
	left := perdure.ToolDetached{CallID: c.Call.ID, TaskID: task.ID, Reason: perdure.DetachedByPolicy}
	answer := placeholder(task, left)
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
		if claimed.row, err = s.e.claimTask(s.tx, task); err != nil {
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
			event = taskEvent(created.Task, fact)
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
