package taskrecord

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Request is a background run as it was requested.
type Request struct {
	Owner *core.Owner
	At    time.Time    // time of the message that requests it; the ids derive from it
	Task  perdure.Task // without the fields that only the store knows

	Permissions []perdure.Permission // an approval is needed for them first
	// Repeats is the call or task of unknown outcome that the run knowingly repeats as a new
	// effect; empty: none.
	Repeats string
	// Fence is that of the call that spawns the run; nil: no call does.
	Fence func(store.Reader) error
	// FromSchedule says that a schedule starts the run. Each fire is an effect of its own, so
	// identical runs are not withheld.
	FromSchedule bool
	// OwnTask says that the call that spawns the run has itself become a task, and so has taken
	// the ids that the run would have.
	OwnTask bool
}

// WithIDs returns the task with its derived ids.
func (o Request) WithIDs(secret perdure.Secret) perdure.Task {
	t := o.Task
	parts := []string{string(t.Session), string(t.Call)}
	if o.OwnTask {
		parts = append(parts, "spawned")
	}
	t.ID = perdure.DeriveID[perdure.TaskID](secret, o.At, parts...)
	t.Run = perdure.DeriveID[perdure.RunID](secret, o.At, parts...)
	if o.Owner != nil {
		t.Trace = o.Owner.Trace
	}
	return t
}

// OwnTask says that the derived ids belong to the task that the call itself became.
var OwnTask = fmt.Errorf("%w: the call is the task with these ids", perdure.Conflict)

// SpawnIn adds the task: running if there is a slot, otherwise queued if the policy allows it.
func (rs *Records) SpawnIn(tx store.Tx, o Request, task perdure.Task) (tool.SpawnResult, perdure.Call, error) {
	if o.Fence != nil {
		if err := o.Fence(tx.Reader()); err != nil {
			return tool.SpawnResult{}, perdure.Call{}, err
		}
	}
	if stored, err := tx.Tasks().Get(task.Session, task.ID); err == nil {
		if stored.FromCall() {
			return tool.SpawnResult{}, perdure.Call{}, OwnTask
		}
		return tool.SpawnResult{Task: stored}, perdure.Call{}, nil // spawned before
	}
	if !o.FromSchedule {
		if err := rs.admission.WithholdTask(tx.Reader(), task, admission.Repeat{Despite: o.Repeats}); err != nil {
			return tool.SpawnResult{}, perdure.Call{}, err
		}
	}
	task.Narration = rs.narration(o.Owner, task)
	if len(o.Permissions) > 0 {
		if err := rs.Reserve(tx, o.Owner, task); err != nil {
			return tool.SpawnResult{}, perdure.Call{}, err
		}
		spawned, err := rs.AwaitApproval(tx, task, o.Permissions)
		return spawned, perdure.Call{}, err
	}
	free, position, err := rs.CanStart(tx.Reader(), task.Session)
	if err == nil {
		err = rs.Reserve(tx, o.Owner, task) // last, so that a refused run has written nothing
	}
	if err != nil {
		return tool.SpawnResult{}, perdure.Call{}, err
	}
	task.State, task.Attempt, task.Delivered = perdure.TaskQueued, 1, perdure.NotDelivered
	task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
	var claimed perdure.Call
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", rs.core.Worker, 1
		task.Home = rs.HomeOf(task)
		task.StartedAt, task.HeartbeatAt = task.CreatedAt, task.CreatedAt
		task.DeadlineAt = task.CreatedAt.Add(rs.toolset.DeadlineOf(task))
	}
	events := []perdure.Event{Event(task, perdure.TaskCreated{Task: task})}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return tool.SpawnResult{}, claimed, err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil {
		return tool.SpawnResult{}, claimed, err
	}
	if free {
		if claimed, err = rs.Claim(tx, task); err != nil {
			return tool.SpawnResult{}, claimed, err
		}
		position = 0
	}
	return tool.SpawnResult{Task: task, Position: position, HasSlot: free || position == 0}, claimed, nil
}

// AwaitApproval adds a task that waits for an approval before it runs. It holds no slot while it
// waits.
func (rs *Records) AwaitApproval(tx store.Tx, task perdure.Task, permissions []perdure.Permission) (tool.SpawnResult, error) {
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
	approval, err := rs.ApprovalOf(tx, task, permissions, task.DisplayName)
	if err != nil {
		return tool.SpawnResult{}, err
	}
	approval.ID = perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(task.ID))
	events := []perdure.Event{Event(task, perdure.TaskCreated{Task: task}),
		Event(task, perdure.ApprovalRequested{Approval: approval})}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return tool.SpawnResult{}, err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil {
		return tool.SpawnResult{}, err
	}
	return tool.SpawnResult{Task: task}, tx.Approvals().Put(approval)
}

// CanStart is place for a new run. An engine that does not run claims nothing: its worker is not
// registered yet, and other workers would treat the claim as that of a dead worker. Neither does a
// worker that does not reach the files of the session. The run waits in the queue.
func (rs *Records) CanStart(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	free, position, err = rs.slotFor(tx, session)
	if err != nil || !free {
		return free, position, err
	}
	if rs.core.Granted() {
		return false, 0, nil
	}
	elsewhere, err := rs.core.WorkElsewhere(tx, session)
	if elsewhere || !rs.core.Running() {
		return false, 1, err
	}
	return free, position, err
}

// slotFor reports whether a run of a session may start now, and otherwise its position in the
// queue. Limit: neither. The limits are counted in the store; work that was stopped but has not
// returned counts too.
func (rs *Records) slotFor(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	limits, err := rs.core.SessionLimits(tx, session)
	if err != nil {
		return false, 0, err
	}
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
	if limits.SlotsPerSession > 0 || limits.SlotsPerProcess > 0 { // counting takes time if there are many
		ofSession, ofProcess = rs.core.Runner.SlotsInUse(session)
	}
	if rs.core.Granted() { // queued runs that have a slot only wait for their grant
		running, queued = grantedUse(limits.SlotsPerSession, running+queued)
	}
	use := perdure.SlotUsage{PerSession: max(running, ofSession), PerProcess: ofProcess, Queued: queued}
	return limits.Overflow.Admit(core.SlotCaps(limits), use)
}

// grantedUse divides the runs of a session into those that have a slot, and those that wait for
// one. slots 0 means that there is no limit.
func grantedUse(slots, runs int) (running, queued int) {
	if slots == 0 || runs <= slots {
		return runs, 0
	}
	return slots, runs - slots
}

// SlotCaps returns the limits for the background runs of this worker.
func (rs *Records) SlotCaps() perdure.SlotCaps { return core.SlotCaps(rs.core.Limits) }

// countTasks counts the tasks of a session in one state.
func countTasks(r store.Reader, state perdure.TaskState, session perdure.SessionID) (int, error) {
	counts, err := r.Tasks().Count(state, session)
	if err != nil || len(counts) == 0 {
		return 0, err
	}
	return counts[0].N, nil
}

// MayDetach refuses a call if there is no slot for it. Detached calls have their own limit, and
// also count against the slots of the process. Limit: no slot.
func (rs *Records) MayDetach(tx store.Reader, session perdure.SessionID) error {
	limits, err := rs.core.SessionLimits(tx, session)
	if err != nil {
		return err
	}
	counts, err := tx.Tasks().Count(perdure.TaskRunning, session)
	if err != nil {
		return err
	}
	detached := rs.core.Runner.Detached(session)
	if len(counts) > 0 {
		detached = max(detached, counts[0].Detached)
	}
	_, ofProcess := rs.core.Runner.SlotsInUse(session)
	return limits.Overflow.AdmitDetached(core.SlotCaps(limits), perdure.SlotUsage{Detached: detached, PerProcess: ofProcess})
}

// HomeOf returns the home at which an execution of a task leaves its remains if it starts here.
func (rs *Records) HomeOf(task perdure.Task) perdure.HomeID {
	t, _ := rs.toolset.Find(task.Tool)
	return rs.core.HomeOf(t)
}

// Claim claims the ledger row of a task: a new row, or that of an earlier execution.
func (rs *Records) Claim(tx store.Tx, task perdure.Task) (perdure.Call, error) {
	fingerprint, err := perdure.Fingerprint(task.Tool, task.Spec.Arguments)
	if err != nil {
		return perdure.Call{}, err
	}
	next := perdure.Call{
		Key: task.LedgerKey(), Turn: task.Turn, Task: task.ID, Attempt: task.Attempt,
		Tool: task.Tool, Args: task.Spec.Arguments,
		Fingerprint: fingerprint, Class: task.Class, Token: core.NewToken(), Worker: rs.core.Worker, Home: task.Home,
	}
	outcome, row, err := tx.Calls().Claim(next, rs.core.WorkerAlive(tx.Reader()))
	if err != nil || outcome == perdure.Claimed {
		return row, err
	}
	old := row
	row.Token, row.Worker, row.Home = next.Token, next.Worker, next.Home
	row.Attempt, row.Executions = task.Attempt, task.Executions
	switch outcome {
	case perdure.AlreadyUnknown: // an operator resolved it as run_again
		row.State, row.Result = perdure.CallRunning, nil
		return row, tx.Calls().Resolve(row, "operator")
	case perdure.ClaimAbandoned, perdure.ClaimConflict:
		return row, tx.Calls().TakeOver(old, row)
	}
	return row, fmt.Errorf("claim the run of task %s: %w: %s", task.ID, perdure.Conflict, outcome)
}
