package perdure

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// TaskUpdate is a write to a task. Zero fields change nothing.
type TaskUpdate struct {
	Attempt      int       // the fencing token: must equal the stored attempt
	State        TaskState // empty: no change
	Detail       string    // becomes StateDetail
	Progress     *Progress
	InputRequest *InputRequest // puts the task into awaiting_input
	LogBytes     int64         // the largest value is kept
	Tail         string
	Narration    string
	Summary      string
	Result       string
	ResultPath   string
	LogPath      string
	Artifacts    []Artifact // replace the stored ones
	Links        Links      // are merged with the stored ones
	Error        *TaskError
	DeadlineAt   time.Time

	IncrementAttempt bool     // a new attempt starts, with Worker as its owner
	Worker           WorkerID // the new owner; with IncrementAttempt or at the first start
	StartsExecution  bool     // an execution starts, which counts as a heartbeat
	Home             HomeID   // with StartsExecution: where its remains will be; empty: it leaves none
	WaitsForHome     HomeID   // only this home can take the task over; empty: unchanged
	Rerun            bool     // an operator's answer: unknown may become queued
	Resolve          bool     // an operator's answer: unknown may become succeeded or failed
	Cancel           *CancelRequest
	Delivered        Delivered
	Lane             Lane     // Background: the call was detached
	Delivery         Delivery // live tasks only
	Wake             Wake     // live tasks only
	Replied          bool     // the caller got the full reply
}

// CancelRequest is a request to cancel a task.
type CancelRequest struct {
	At    time.Time
	By    string
	Why   string
	Force bool // without a grace period
}

// UpdateAnswer says what a write to a task did.
type UpdateAnswer string

// The answers of a write to a task.
const (
	Updated       UpdateAnswer = "updated"
	UpdateLost    UpdateAnswer = "lost"    // another attempt owns the task; nothing changed
	UpdateSettled UpdateAnswer = "settled" // the task has already ended; the stored record stays
)

// TaskChange is the result of a write: the task after it, what happened, and what belongs in the
// same commit.
type TaskChange struct {
	Task            Task
	Answer          UpdateAnswer
	NeedsEvent      bool // task.updated belongs in the same commit
	Ended           bool // the task ended: its result, settlement and delivery belong in the same commit
	CancelRequested bool // a cancel was requested
}

// Update applies a write to the task. Every store uses this function, so a write means the same in
// all of them. Its rules, in order:
//
//   - A write of another attempt answers UpdateLost and changes nothing.
//   - An ended task answers UpdateSettled to another state. The exception is an operator's answer
//     to the state unknown.
//   - An ended task without a change of state only accepts what fillIn completes.
//   - A change of state that CanBecome forbids is Conflict and changes nothing.
func (t Task) Update(u TaskUpdate, now time.Time) (TaskChange, error) {
	if u.Attempt != t.Attempt {
		return TaskChange{Task: t, Answer: UpdateLost, CancelRequested: t.CancelRequested()}, nil
	}
	if t.State.Terminal() && u.State != "" && u.State != t.State && !(t.State == TaskUnknown && (u.Resolve || u.Rerun)) {
		return TaskChange{Task: t, Answer: UpdateSettled, CancelRequested: t.CancelRequested()}, nil
	}
	if t.State.Terminal() && (u.State == "" || u.State == t.State) {
		if u.InputRequest != nil || u.IncrementAttempt || u.StartsExecution { // too late for a question or a take-over
			return TaskChange{Task: t, Answer: UpdateSettled, CancelRequested: t.CancelRequested()}, nil
		}
		return t.fillIn(u, now), nil
	}
	old := t
	if err := t.step(u, now); err != nil {
		return TaskChange{Task: old}, err
	}
	t.copyFields(u, now)
	t.UpdatedAt = now
	return TaskChange{
		Task:            t,
		Answer:          Updated,
		NeedsEvent:      t.needsEvent(old),
		Ended:           t.State.Terminal() && t.State != old.State,
		CancelRequested: t.CancelRequested(),
	}, nil
}

// fillIn completes the record of an ended task: artifacts, links, an empty summary, and how its
// result was delivered. It changes nothing else.
func (t Task) fillIn(u TaskUpdate, now time.Time) TaskChange {
	old := t
	if len(u.Artifacts) > 0 {
		t.Artifacts = u.Artifacts
	}
	t.Links = t.Links.merge(u.Links)
	if t.Summary == "" {
		t.Summary = u.Summary
	}
	if u.Delivered != "" && t.undelivered() {
		t.Delivered = u.Delivered
	}
	t.recordReply(u, now)
	change := TaskChange{Task: t, Answer: Updated, CancelRequested: t.CancelRequested()}
	change.NeedsEvent = t.needsEvent(old)
	if change.NeedsEvent || t.Summary != old.Summary || t.Delivered != old.Delivered {
		change.Task.UpdatedAt = now
	}
	return change
}

// step changes attempt and state.
func (t *Task) step(u TaskUpdate, now time.Time) error {
	to := u.State
	if u.InputRequest != nil {
		to = TaskAwaitingInput
	}
	if u.IncrementAttempt {
		t.Attempt++
		t.Worker, t.WaitsForHome = u.Worker, ""
	} else if u.Worker != "" {
		t.Worker = u.Worker
	}
	if u.StartsExecution {
		t.Executions++
		t.Home, t.HeartbeatAt = u.Home, now
	}
	if to == "" || to == t.State {
		t.InputRequest = cmp.Or(u.InputRequest, t.InputRequest)
		return nil
	}
	recovery := u.IncrementAttempt && t.State == TaskRunning && to == TaskQueued
	resolved := t.State == TaskUnknown && (u.Resolve && (to == TaskSucceeded || to == TaskFailed) || u.Rerun && u.IncrementAttempt && to == TaskQueued)
	if !t.State.CanBecome(to) && !recovery && !resolved {
		return fmt.Errorf("%w: task %s cannot go from %s to %s", Conflict, t.ID, t.State, to)
	}
	t.State = to
	t.InputRequest = u.InputRequest
	if to == TaskRunning && t.StartedAt.IsZero() {
		t.StartedAt = now
	}
	if to.Terminal() && t.FinishedAt.IsZero() {
		t.FinishedAt = now
	}
	if resolved {
		t.reopen(to)
		t.ResolvedAt = now
	}
	return nil
}

// reopen prepares a task of unknown outcome for an operator's answer. The new outcome will be
// delivered again. A task that runs again loses the cancel request and the deadline of its earlier
// attempt.
func (t *Task) reopen(to TaskState) {
	t.Delivered, t.Error, t.Summary, t.Result = NotDelivered, nil, "", ""
	if to == TaskQueued {
		t.Narration, t.Home = "", "" // they are of the earlier execution
		t.FinishedAt, t.DeadlineAt, t.StateDetail = time.Time{}, time.Time{}, ""
		t.CancelRequestedAt, t.CancelBy, t.CancelWhy = time.Time{}, "", ""
		t.ForceRequestedAt = time.Time{}
	}
}

// recordReply records, once, when the caller got its reply, and once more for the reply after an
// operator's answer.
func (t *Task) recordReply(u TaskUpdate, now time.Time) {
	if u.Replied && (t.RepliedAt.IsZero() || t.RepliedAt.Before(t.ResolvedAt)) {
		t.RepliedAt = now
	}
}

// undelivered reports whether the result has not been delivered yet.
func (t Task) undelivered() bool { return t.Delivered == NotDelivered || t.Delivered == "" }

func (t *Task) copyFields(u TaskUpdate, now time.Time) {
	if u.Detail != "" {
		t.StateDetail = u.Detail
	}
	if u.Progress.Finite() {
		t.Progress = u.Progress
	}
	t.LogBytes = max(t.LogBytes, u.LogBytes)
	t.Tail = cmp.Or(u.Tail, t.Tail)
	t.Narration = cmp.Or(u.Narration, t.Narration)
	t.Summary = cmp.Or(u.Summary, t.Summary)
	t.Result = cmp.Or(u.Result, t.Result)
	t.ResultPath = cmp.Or(u.ResultPath, t.ResultPath)
	t.LogPath = cmp.Or(u.LogPath, t.LogPath)
	if u.Artifacts != nil {
		t.Artifacts = u.Artifacts
	}
	t.Links = t.Links.merge(u.Links)
	if u.Error != nil {
		t.Error = u.Error
	}
	if !u.DeadlineAt.IsZero() {
		t.DeadlineAt = u.DeadlineAt
	}
	if u.Lane == Background && t.Lane != Background {
		t.Lane, t.DetachedAt = Background, now
	}
	if u.WaitsForHome != "" {
		t.WaitsForHome, t.Home = u.WaitsForHome, cmp.Or(t.Home, u.WaitsForHome)
	}
	t.recordReply(u, now)
	t.Delivery = cmp.Or(u.Delivery, t.Delivery)
	t.Wake = cmp.Or(u.Wake, t.Wake)
	if u.Cancel != nil && !t.CancelRequested() { // the first request wins
		t.CancelRequestedAt, t.CancelBy, t.CancelWhy = u.Cancel.At, u.Cancel.By, u.Cancel.Why
		if t.State.Live() {
			t.StateDetail = "canceling"
		}
	}
	if u.Cancel != nil && u.Cancel.Force && !t.ForceRequested() {
		t.ForceRequestedAt = u.Cancel.At
	}
}

// needsEvent reports whether a change belongs in the journal: state, attempt, lane, home, cancel,
// delivery, input request, links or artifacts. Other changes only overwrite the row.
func (t Task) needsEvent(old Task) bool {
	return t.State != old.State ||
		t.Attempt != old.Attempt ||
		t.Lane != old.Lane ||
		t.WaitsForHome != old.WaitsForHome ||
		!t.CancelRequestedAt.Equal(old.CancelRequestedAt) ||
		!t.ForceRequestedAt.Equal(old.ForceRequestedAt) ||
		t.Delivery != old.Delivery || t.Wake != old.Wake ||
		(t.InputRequest == nil) != (old.InputRequest == nil) ||
		t.InputRequest != nil && t.InputRequest.ID != old.InputRequest.ID ||
		t.Links.ChildSession != old.Links.ChildSession ||
		t.Links.RemoteTask != old.Links.RemoteTask ||
		!slices.Equal(t.Links.Resources, old.Links.Resources) ||
		!slices.Equal(t.Artifacts, old.Artifacts)
}

func (l Links) merge(m Links) Links {
	if m.ChildSession != "" {
		l.ChildSession = m.ChildSession
	}
	l.RemoteTask = cmp.Or(m.RemoteTask, l.RemoteTask)
	for _, id := range m.Resources {
		if !slices.Contains(l.Resources, id) {
			l.Resources = append(slices.Clone(l.Resources), id)
		}
	}
	return l
}
