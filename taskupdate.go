package perdure

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// TaskUpdate is one write to a task. Zero fields are left as they are.
type TaskUpdate struct {
	Attempt      int           // the fence: must be the stored attempt (TK6)
	State        TaskState     // empty: no change of state
	Detail       string        // state_detail
	Progress     *Progress     //
	InputRequest *InputRequest // puts the task into awaiting_input
	LogBytes     int64         // only ever grows
	Tail         string        // of the output
	Summary      string        //
	Result       string        // of a call that became a task
	ResultPath   string        //
	LogPath      string        //
	Artifacts    []Artifact    // replace
	Links        Links         // merged
	Error        *TaskError    //
	DeadlineAt   time.Time     //

	IncrementAttempt bool     // recovery, relaunch, rerun: attempt+1 under Worker
	Worker           WorkerID // the new owner; with IncrementAttempt or a first start
	Execution        bool     // a run begins: executions+1
	Rerun            bool     // with a resolve: unknown may go back to queued
	Resolve          bool     // an operator's word: unknown may become succeeded or failed
	Cancel           *CancelRequest
	Delivered        Delivered
	Lane             Lane     // Background: its call left the turn (LN1)
	Delivery         Delivery // how the end comes home; live tasks only
	Wake             Wake     // likewise
	Told             bool     // the reply to its caller was written whole
}

// CancelRequest is who asked for a task's end, when and why.
type CancelRequest struct {
	At  time.Time
	By  string
	Why string
}

// UpdateAnswer says what a write to a task did (7.3).
type UpdateAnswer string

// The answers of a write to a task.
const (
	Updated       UpdateAnswer = "updated"
	UpdateLost    UpdateAnswer = "lost"    // another attempt has the task; nothing changed
	UpdateSettled UpdateAnswer = "settled" // terminal already; the stored record stands
)

// TaskChange is the result of a write: the record as it stands now, what happened, and whether the
// journal must say so.
type TaskChange struct {
	Task     Task
	Answer   UpdateAnswer
	Event    bool // task.updated belongs into the same commit (EV7)
	Ended    bool // this write made it terminal: result, ledger and delivery belong into the same commit
	Canceled bool // a cancel was asked for (TK7)
}

// Update applies one write by the algorithm of 7.3, identical in every store. A step that the table of
// 7.2 forbids is Conflict and changes nothing.
func (t Task) Update(u TaskUpdate, now time.Time) (TaskChange, error) {
	if u.Attempt != t.Attempt {
		return TaskChange{Task: t, Answer: UpdateLost, Canceled: t.CancelRequested()}, nil
	}
	if t.State.Terminal() && u.State != "" && u.State != t.State && !(t.State == TaskUnknown && (u.Resolve || u.Rerun)) {
		return TaskChange{Task: t, Answer: UpdateSettled, Canceled: t.CancelRequested()}, nil
	}
	if t.State.Terminal() && (u.State == "" || u.State == t.State) {
		if u.InputRequest != nil || u.IncrementAttempt || u.Execution { // a question or a take-over comes too late
			return TaskChange{Task: t, Answer: UpdateSettled, Canceled: t.CancelRequested()}, nil
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
		Task:     t,
		Answer:   Updated,
		Event:    t.newsworthy(old),
		Ended:    t.State.Terminal() && t.State != old.State,
		Canceled: t.CancelRequested(),
	}, nil
}

// fillIn completes the record of an ended task: artifacts, links, an empty summary, and what became of
// its result. Nothing else of it changes.
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
	t.tell(u, now)
	change := TaskChange{Task: t, Answer: Updated, Canceled: t.CancelRequested()}
	change.Event = t.newsworthy(old)
	if change.Event || t.Summary != old.Summary || t.Delivered != old.Delivered {
		change.Task.UpdatedAt = now
	}
	return change
}

// step makes the change of attempt and state.
func (t *Task) step(u TaskUpdate, now time.Time) error {
	to := u.State
	if u.InputRequest != nil {
		to = TaskAwaitingInput
	}
	if u.IncrementAttempt {
		t.Attempt++
		t.Worker = u.Worker
	} else if u.Worker != "" {
		t.Worker = u.Worker
	}
	if u.Execution {
		t.Executions++
	}
	if to == "" || to == t.State {
		t.InputRequest = firstRequest(u.InputRequest, t.InputRequest)
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

// reopen prepares an unknown task for what an operator said of it: its outcome is delivered anew (TK3, DL2),
// and one that runs again starts without the wish and the deadline of the attempt before.
func (t *Task) reopen(to TaskState) {
	t.Delivered, t.Error, t.Summary, t.Result = NotDelivered, nil, "", ""
	if to == TaskQueued {
		t.FinishedAt, t.DeadlineAt, t.StateDetail = time.Time{}, time.Time{}, ""
		t.CancelRequestedAt, t.CancelBy, t.CancelWhy = time.Time{}, "", ""
	}
}

// tell notes, once, that the caller has its reply, and once more that it has the one after an operator's word.
func (t *Task) tell(u TaskUpdate, now time.Time) {
	if u.Told && (t.ToldAt.IsZero() || t.ToldAt.Before(t.ResolvedAt)) {
		t.ToldAt = now
	}
}

// undelivered reports whether the task's result has not come home yet.
func (t Task) undelivered() bool { return t.Delivered == NotDelivered || t.Delivered == "" }

func (t *Task) copyFields(u TaskUpdate, now time.Time) {
	if u.Detail != "" {
		t.StateDetail = u.Detail
	}
	if u.Progress.finite() {
		t.Progress = u.Progress
	}
	t.LogBytes = max(t.LogBytes, u.LogBytes)
	t.Tail = orString(u.Tail, t.Tail)
	t.Summary = orString(u.Summary, t.Summary)
	t.Result = orString(u.Result, t.Result)
	t.ResultPath = orString(u.ResultPath, t.ResultPath)
	t.LogPath = orString(u.LogPath, t.LogPath)
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
	t.tell(u, now)
	t.Delivery = Delivery(orString(string(u.Delivery), string(t.Delivery)))
	t.Wake = Wake(orString(string(u.Wake), string(t.Wake)))
	if u.Cancel != nil && !t.CancelRequested() { // the first request wins (RC1)
		t.CancelRequestedAt, t.CancelBy, t.CancelWhy = u.Cancel.At, u.Cancel.By, u.Cancel.Why
		if t.State.Live() {
			t.StateDetail = "canceling"
		}
	}
}

// finite reports whether there is progress that can be written as JSON.
func (p *Progress) finite() bool {
	if p == nil {
		return false
	}
	for _, n := range []*float64{p.Current, p.Total} {
		if n != nil && (math.IsNaN(*n) || math.IsInf(*n, 0)) {
			return false
		}
	}
	return true
}

// newsworthy reports whether the journal must tell the change: state, attempt, lane, intent, input request,
// links or artifacts (EV7). Everything else only overwrites the row.
func (t Task) newsworthy(old Task) bool {
	return t.State != old.State ||
		t.Attempt != old.Attempt ||
		t.Lane != old.Lane ||
		!t.CancelRequestedAt.Equal(old.CancelRequestedAt) ||
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
	l.RemoteTask = orString(m.RemoteTask, l.RemoteTask)
	for _, id := range m.Resources {
		if !slices.Contains(l.Resources, id) {
			l.Resources = append(slices.Clone(l.Resources), id)
		}
	}
	return l
}

func firstRequest(a, b *InputRequest) *InputRequest {
	if a != nil {
		return a
	}
	return b
}

func orString(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}
