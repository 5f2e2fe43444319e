package foreground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// callRun is one execution of a foreground call in this process. It may become a task while it
// runs.
type callRun struct {
	calls      *Calls
	run        Request
	row        perdure.Call
	call       tool.Call
	owner      *core.Owner
	name       string    // the tool's display name
	at         time.Time // time of the message that requests the call; task ids derive from it
	sink       callSink
	secretArgs *redact.Set // the call's secret arguments; nil: none

	mu             sync.Mutex
	detachReason   string       // guarded by mu; reason of a requested detach; empty: the soft budget
	task           perdure.Task // guarded by mu; set once the call is a task
	detachErr      error        // guarded by mu; why the last detach failed
	noSlotReported bool         // guarded by mu; the model was shown that there is no slot

	superseded bool // guarded by mu; it ended because the session has another driver

	remote string // guarded by mu; id of the remote task that does the work; empty: none
}

// end is called by the runner when the execution has ended.
func (c *callRun) end(end dispatch.End) {
	c.calls.running.Delete(c.row.Key)
	c.sink.close()
	if end.Cause == perdure.CauseSuperseded {
		c.mu.Lock()
		c.superseded = true
		c.mu.Unlock()
	}
	if core.LeftForRestart(end) || end.Cause == perdure.CauseSuperseded {
		return // left for the next start, or owned by another worker now
	}
	if end.Lane != perdure.Background {
		c.run.Done(c.calls.settledOutcome(c.run, c.row, c.calls.resultOf(c.row, end)))
		return
	}
	task, row := c.taskAndRow()
	if c.calls.tasks.EndsWithChild(task) {
		return // the end of the subagent's own session ends the task
	}
	c.calls.tasks.End(context.Background(), task, row, c.calls.tasks.Judge(taskrun.Claimed{Task: task, Row: row, Owner: c.owner}, end.Result, end))
}

// returned is called when the tool has really returned.
func (c *callRun) returned() {
	if task, _ := c.taskAndRow(); task.ID != "" {
		c.calls.records.DropWork(task.ID)
		c.calls.core.StartQueued()
		return
	}
	c.mu.Lock()
	superseded := c.superseded
	c.mu.Unlock()
	if superseded {
		c.calls.core.Wake(c.row.Key.Session) // its next driver may be in this process, and wait for this
	}
}

// taskAndRow returns the task that the call became, with its ledger row; the zero task while the
// call is in the foreground.
func (c *callRun) taskAndRow() (perdure.Task, perdure.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row := c.row
	row.Task, row.Attempt = c.task.ID, c.task.Attempt
	return c.task, row
}

// AskingTask implements taskrun.Asker: the call becomes a task, unless it is one.
func (c *callRun) AskingTask() (perdure.Task, error) {
	task, _ := c.taskAndRow()
	if task.ID == "" && c.requestDetach(perdure.DetachedByAsking) {
		task, _ = c.taskAndRow()
	}
	if task.ID == "" {
		return task, fmt.Errorf("%w: a call that cannot leave its turn cannot ask questions", perdure.Conflict)
	}
	return task, nil
}

// Link implements tool.Remote. The id is recorded when the call leaves its turn.
func (c *callRun) Link(ctx context.Context, id string) error {
	c.mu.Lock()
	c.remote = id
	task := c.task
	c.mu.Unlock()
	if task.ID == "" {
		return nil
	}
	return c.calls.tasks.LinkRemote(ctx, task, id)
}

// requestDetach asks the runner to detach the call, and reports whether the call is a task now.
func (c *callRun) requestDetach(why string) bool {
	c.mu.Lock()
	c.detachReason = why
	c.mu.Unlock()
	return c.calls.core.Runner.Detach(c.row.Key.String())
}

// detach makes the call a task. Task row, lane, placeholder and the task id in the ledger row are
// one commit, fenced by the session's epoch. If the commit fails, the call stays in the foreground
// and the runner tries again later.
func (c *callRun) detach() bool {
	c.mu.Lock()
	why := c.detachReason
	c.detachReason = ""
	c.mu.Unlock()
	soft := c.run.Command.Call.SoftBudget
	if why == "" {
		why = perdure.DetachedByBudget
	}
	ctx := context.Background() // wait for the answer: the code below reads what the commit made
	var task perdure.Task
	err := c.calls.core.Work.InTx(ctx, func(tx store.Tx) (err error) {
		task, err = c.detachIn(tx, why, soft)
		return err
	})
	if err != nil && !c.isTask(ctx, task) {
		c.calls.records.DropWork(task.ID)
		c.detachFailed(err)
		return false
	}
	c.mu.Lock()
	c.task = task
	remote := c.remote
	c.mu.Unlock()
	if remote != task.Links.RemoteTask { // it was linked during the commit
		if err := c.calls.tasks.LinkRemote(ctx, task, remote); err != nil {
			c.calls.core.Log.Error("remote task not linked", "task", task.ID, "error", err)
		}
	}
	c.run.Session, c.run.Row, c.run.Claimed = nil, nil, nil // a waiting task must not keep a conversation in memory
	sink := c.calls.tasks.NewSink(task, 0)
	c.sink.attachTask(sink)
	c.calls.core.Log.Info("call detached", "tool", c.row.Tool, "why", why, "budget", soft, "task", task.ID,
		"call", c.row.Key, "args", redact.Document(c.row.Args))
	c.calls.core.Wake(c.row.Key.Session)
	c.calls.tasks.Evict(ctx, c.row.Key.Session)
	return true
}

// isTask reads back whether a commit whose answer was lost is stored.
func (c *callRun) isTask(ctx context.Context, task perdure.Task) bool {
	if task.ID == "" {
		return false
	}
	var row perdure.Call
	err := c.calls.core.ReadBack(ctx, func(r store.Reader) (err error) {
		row, err = r.Calls().Get(c.row.Key)
		return err
	})
	return err == nil && row.Token == c.row.Token && row.Task == task.ID
}

// detachFailed records why a call stays in the foreground. A missing slot is shown once; other
// errors are logged.
func (c *callRun) detachFailed(err error) {
	c.mu.Lock()
	c.detachErr = err
	c.mu.Unlock()
	var full *perdure.NoSlot
	if !errors.As(err, &full) {
		c.calls.core.Log.Warn("call not detached", "tool", c.row.Tool, "call", c.row.Key, "error", err)
		return
	}
	c.mu.Lock()
	told := c.noSlotReported
	c.noSlotReported = true
	c.mu.Unlock()
	if !told {
		c.sink.Status(full.Text)
	}
}

// detachFailure returns why the last detach failed.
func (c *callRun) detachFailure() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var full *perdure.NoSlot
	switch {
	case errors.As(c.detachErr, &full):
		return full.Text
	case c.detachErr != nil:
		return "the task could not be recorded"
	}
	return "it is being stopped"
}

// detachIn is the commit of detach.
func (c *callRun) detachIn(tx store.Tx, why string, soft time.Duration) (perdure.Task, error) {
	key := c.row.Key
	session, err := tx.Sessions().Get(key.Session)
	if err != nil {
		return perdure.Task{}, err
	}
	if session.Worker != c.calls.core.Worker {
		return perdure.Task{}, fmt.Errorf("session %s: %w", key.Session, perdure.Lost)
	}
	if _, err := tx.Sessions().Lock(key.Session, session.Epoch); err != nil {
		return perdure.Task{}, err
	}
	task := c.calls.records.OfCall(taskrecord.Call{Owner: c.owner, Row: c.row, At: c.at, Secret: session.Secret, Name: c.name,
		Origin: perdure.OriginDetached})
	if row, err := tx.Calls().Get(key); err != nil || row.Token == c.row.Token && row.Task == task.ID {
		// committed before; only the answer was lost
		if err == nil {
			task, err = tx.Tasks().Get(task.Session, task.ID)
		}
		return task, err
	}
	if why != perdure.DetachedByAsking { // a task that waits for a person needs no slot
		if err := c.calls.records.MayDetach(tx.Reader(), key.Session); err != nil {
			return perdure.Task{}, err
		}
	}
	task.Wake = perdure.Wake(cmp.Or(string(c.run.Command.Call.Wake), string(task.Wake)))
	c.mu.Lock()
	task.Links.RemoteTask = c.remote
	c.mu.Unlock()
	now := tx.Now()
	task.Home = c.row.Home
	task.State, task.Worker, task.Executions, task.DeadlineAt = perdure.TaskRunning, c.calls.core.Worker, c.row.Executions,
		c.call.Deadline
	task.CreatedAt, task.UpdatedAt, task.StartedAt, task.HeartbeatAt, task.DetachedAt = now, now, c.row.ClaimedAt, now,
		now
	exists := false // its subagent exists, and so does its task
	switch known, err := tx.Tasks().Get(task.Session, task.ID); {
	case err == nil && known.Kind == perdure.KindSubagent && known.State.Terminal():
		// the end of the subagent no longer settles a ledger row
		return perdure.Task{}, fmt.Errorf("%w: the call's subagent has just ended", perdure.Conflict)
	case err == nil && known.Kind == perdure.KindSubagent:
		known.Wake = task.Wake
		task, exists = known, true
	case err == nil && !known.FromCall(): // the task ids of the call are taken by the run that it started
		return perdure.Task{}, fmt.Errorf("%w: the call has started the background run %s", perdure.Conflict, known.ID)
	}
	c.calls.records.SetWork(task.ID, key.String()) // before the commit, so that a cancel that sees the task finds its work
	if err := tx.Calls().Bind(key, c.row.Token, task.ID, task.Attempt); err != nil {
		return task, err
	}
	left := perdure.ToolDetached{CallID: key.Call, TaskID: task.ID, Reason: why}
	if why == perdure.DetachedByBudget {
		left.TimeoutSeconds = soft.Seconds()
	}
	done := perdure.ToolCompleted{CallID: key.Call, Name: c.row.Tool,
		DurationMS: core.Elapsed(c.row.ClaimedAt, now).Milliseconds()}
	done.Result = taskrecord.Placeholder(task, left)
	done.Status = done.Result.Status()
	var events []perdure.Event
	if !exists {
		events = append(events, taskrecord.Event(task, perdure.TaskCreated{Task: task}))
	}
	for _, fact := range []perdure.Fact{left, done} {
		events = append(events, perdure.Event{Session: key.Session, Actor: "runtime", Turn: c.row.Turn, Call: key.Call,
			Fact: fact})
	}
	core.Stamp(events, now)
	if err := tx.Journal().Append(key.Session, events); err != nil {
		return task, err
	}
	if exists { // only the lane changes
		change, err := c.calls.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt, Lane: perdure.Background,
			Wake: task.Wake})
		return change.Task, err
	}
	_, _, err = tx.Tasks().Create(task)
	return task, err
}

// waitingCapability is the capability of the tools that start background runs and wait for them.
const waitingCapability = "background_execution"

// waits reports whether calls of a tool never leave the foreground, not even on request. These are
// the tools that start background runs and wait for them.
func (cs *Calls) waits(name string) bool {
	t, ok := cs.toolset.Find(name)
	return ok && t.Spec().SoftBudget == tool.Never && t.Spec().Hints.CapabilityID == waitingCapability
}

// DetachedTasks lists the tasks of calls that left their turns and still run in this process.
func (cs *Calls) DetachedTasks() (ids []perdure.TaskID) {
	cs.running.Range(func(_, c any) bool {
		if task, _ := c.(*callRun).taskAndRow(); task.ID != "" {
			ids = append(ids, task.ID)
		}
		return true
	})
	return ids
}

// DetachedOf counts the detached calls of a session that run in this process, whether or not they
// wait for an answer.
func (cs *Calls) DetachedOf(session perdure.SessionID) (n int) {
	cs.running.Range(func(key, c any) bool {
		if key.(perdure.CallKey).Session == session {
			if task, _ := c.(*callRun).taskAndRow(); task.ID != "" {
				n++
			}
		}
		return true
	})
	return n
}

// Supersede stops the foreground calls of this process as superseded.
func (cs *Calls) Supersede() {
	cs.running.Range(func(key, _ any) bool {
		cs.core.Runner.Cancel(key.(perdure.CallKey).String(), perdure.CauseSuperseded)
		return true
	})
}
