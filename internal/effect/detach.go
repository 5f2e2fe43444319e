package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// callRun is one execution of a foreground call in this process. It may become a task on its way.
type callRun struct {
	e     *Effects
	run   CallRun
	row   perdure.Call
	call  tool.Call
	owner *owner
	name  string    // the tool's display name
	at    time.Time // of the message that asks: the task's ids are derived from it
	sink  callSink
	own   *redact.Set // the call's secret arguments; nil: it has none

	mu   sync.Mutex
	why  string       // guarded by mu; the reason for which it is asked to leave; empty: its budget
	task perdure.Task // guarded by mu; set once it is one
	kept error        // guarded by mu; why it stayed when it was asked last
	told bool         // guarded by mu; that it stays for want of a place was said

	remote string // guarded by mu; the task of another runtime that carries it out; empty: none does
}

// end is told by the runner how the execution ended.
func (c *callRun) end(end dispatch.End) {
	c.e.calls.Delete(c.row.Key)
	c.sink.close()
	if leftAsItIs(end) || end.Cause == perdure.CauseSuperseded {
		return // nothing fails because the runtime stops (RC11); or it is another's (LG3, TK6)
	}
	if end.Lane != perdure.Background {
		c.run.Done(c.e.settled(c.run, c.row, c.e.ended(c.row, end)))
		return
	}
	task, row := c.asTask()
	if c.e.endsByChild(task) {
		return // the subagent says how it ended (SA9)
	}
	c.e.endTask(context.Background(), task, row, c.e.judgeTask(task, row, end.Result, end))
}

// gone is told when the tool has really returned.
func (c *callRun) gone() {
	if task, _ := c.asTask(); task.ID != "" {
		c.e.detached.Delete(task.ID)
		c.e.cfg.Freed()
	}
}

// asTask is the task that the call became, with its row in the ledger; the zero task in the foreground.
func (c *callRun) asTask() (perdure.Task, perdure.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row := c.row
	row.Task, row.Attempt = c.task.ID, c.task.Attempt
	return c.task, row
}

// leave asks the runner for the end of the foreground, for a reason, and reports whether the call is a task now.
func (c *callRun) leave(why string) bool {
	c.mu.Lock()
	c.why = why
	c.mu.Unlock()
	return c.e.cfg.Runner.Detach(c.row.Key.String())
}

// detach makes the call a task: task row, lane, placeholder and the binding of the ledger row are one commit, fenced by
// the session's epoch (LN7). When it cannot be made, the call stays in the foreground and is asked again.
func (c *callRun) detach() bool {
	c.mu.Lock()
	why := c.why
	c.why = ""
	c.mu.Unlock()
	soft := c.run.Command.Call.Soft
	if why == "" {
		why = perdure.DetachedByBudget
	}
	ctx := context.Background() // nobody leaves before the answer: what the commit made is read after it
	var task perdure.Task
	err := c.e.work.InTx(ctx, func(tx store.Tx) (err error) {
		task, err = c.detachIn(tx, why, soft)
		return err
	})
	if err != nil && !c.isTask(ctx, task) {
		c.e.detached.Delete(task.ID)
		c.stays(err)
		return false
	}
	c.mu.Lock()
	c.task = task
	remote := c.remote
	c.mu.Unlock()
	if remote != task.Links.RemoteTask { // it came while the commit was made
		if err := c.e.linkRemote(ctx, task, remote); err != nil {
			c.e.cfg.Log.Error("a task is not linked with its remote one", "task", task.ID, "error", err)
		}
	}
	c.run.Session, c.run.Drive = nil, nil // a task that waits keeps no conversation in memory
	sink := newTaskSink(c.e, task, 0)
	c.sink.become(sink)
	c.e.cfg.Log.Warn("a call left its turn", "tool", c.row.Tool, "why", why, "budget", soft, "task", task.ID, "call", c.row.Key, "args", redact.Document(c.row.Args))
	c.e.cfg.Wake(c.row.Key.Session)
	c.e.evict(ctx, c.row.Key.Session)
	return true
}

// DetachCall lets a foreground call that runs here go on as a task. NotFound: it does not. Conflict: it stays, and why.
func (e *Effects) DetachCall(ctx context.Context, key perdure.CallKey) (perdure.Task, error) {
	running, ok := e.calls.Load(key)
	if !ok {
		return perdure.Task{}, fmt.Errorf("detach call %s: %w: it does not run in the foreground", key, perdure.NotFound)
	}
	c := running.(*callRun)
	if e.waits(c.row.Tool) {
		return perdure.Task{}, fmt.Errorf("detach call %s: %w: %s has a wait of its own and stays in the foreground", key, perdure.Conflict, c.row.Tool)
	}
	if !c.leave(perdure.DetachedByHost) {
		return perdure.Task{}, fmt.Errorf("detach call %s: %w: it stays in the foreground: %s", key, perdure.Conflict, c.reason())
	}
	task, _ := c.asTask()
	return e.storedTask(ctx, task)
}

// waitingCapability brings the tools that start background runs and wait for them.
const waitingCapability = "background_execution"

// waits reports whether calls of a tool never leave the foreground, whoever asks: what starts background runs, and waits
// for them (LN5).
func (e *Effects) waits(name string) bool {
	t, ok := e.tool(name)
	return ok && t.Spec().SoftBudget == tool.Never && t.Spec().Hints.CapabilityID == waitingCapability
}

// isTask reads back whether a commit was made whose answer was lost.
func (c *callRun) isTask(ctx context.Context, task perdure.Task) bool {
	if task.ID == "" {
		return false
	}
	var row perdure.Call
	err := c.e.readBack(ctx, func(r store.Reader) (err error) {
		row, err = r.Call(c.row.Key)
		return err
	})
	return err == nil && row.Token == c.row.Token && row.Task == task.ID
}

// stays tells why a call is still in the foreground, once where it only wants a place.
func (c *callRun) stays(err error) {
	c.mu.Lock()
	c.kept = err
	c.mu.Unlock()
	var full *perdure.NoSlot
	if !errors.As(err, &full) {
		c.e.cfg.Log.Warn("a call could not leave its turn", "tool", c.row.Tool, "call", c.row.Key, "error", err)
		return
	}
	c.mu.Lock()
	told := c.told
	c.told = true
	c.mu.Unlock()
	if !told {
		c.sink.Status(full.Text)
	}
}

// reason is why the call stayed when it was asked last.
func (c *callRun) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var full *perdure.NoSlot
	switch {
	case errors.As(c.kept, &full):
		return full.Text
	case c.kept != nil:
		return "the task could not be recorded"
	}
	return "it is being stopped"
}

// detachIn is the commit of detach.
func (c *callRun) detachIn(tx store.Tx, why string, soft time.Duration) (perdure.Task, error) {
	key := c.row.Key
	session, err := tx.Session(key.Session)
	if err != nil {
		return perdure.Task{}, err
	}
	if session.Worker != c.e.cfg.Worker {
		return perdure.Task{}, fmt.Errorf("session %s: %w", key.Session, perdure.Lost)
	}
	if _, err := tx.LockSession(key.Session, session.Epoch); err != nil {
		return perdure.Task{}, err
	}
	task := c.e.taskOfCall(callTask{owner: c.owner, row: c.row, at: c.at, secret: session.Secret, name: c.name, origin: perdure.OriginDetached})
	if row, err := tx.Call(key); err != nil || row.Token == c.row.Token && row.Task == task.ID { // made before, and nobody was told
		if err == nil {
			task, err = tx.Task(task.Session, task.ID)
		}
		return task, err
	}
	if why != perdure.DetachedByAsking { // who waits for a person holds no place (TK15)
		if err := c.e.mayDetach(tx, key.Session); err != nil {
			return perdure.Task{}, err
		}
	}
	task.Wake = perdure.Wake(orElse(string(c.run.Command.Call.Wake), string(task.Wake)))
	c.mu.Lock()
	task.Links.RemoteTask = c.remote
	c.mu.Unlock()
	now := tx.Now()
	task.State, task.Worker, task.Executions, task.DeadlineAt = perdure.TaskRunning, c.e.cfg.Worker, c.row.Executions, c.call.Deadline
	task.CreatedAt, task.UpdatedAt, task.StartedAt, task.HeartbeatAt, task.DetachedAt = now, now, c.row.ClaimedAt, now, now
	born := false // its subagent is there, and with it the record
	switch known, err := tx.Task(task.Session, task.ID); {
	case err == nil && known.Kind == perdure.KindSubagent && known.State.Terminal(): // its end settles no ledger row any more
		return perdure.Task{}, fmt.Errorf("%w: its subagent has just ended", perdure.Conflict)
	case err == nil && known.Kind == perdure.KindSubagent:
		known.Wake = task.Wake
		task, born = known, true
	case err == nil && !known.FromCall(): // the ids of the call's task are those of the run that it has started (TK1)
		return perdure.Task{}, fmt.Errorf("%w: it has started the background run %s", perdure.Conflict, known.ID)
	}
	c.e.detached.Store(task.ID, key.String()) // a cancel that sees the task finds its work
	if err := tx.BindCall(key, c.row.Token, task.ID, task.Attempt); err != nil {
		return task, err
	}
	left := perdure.ToolDetached{CallID: key.Call, TaskID: task.ID, Reason: why}
	if why == perdure.DetachedByBudget {
		left.TimeoutSeconds = soft.Seconds()
	}
	done := perdure.ToolCompleted{CallID: key.Call, Name: c.row.Tool, DurationMS: elapsed(c.row.ClaimedAt, now).Milliseconds()}
	done.Result = placeholder(task, left)
	done.Status = done.Result.Status()
	var events []perdure.Event
	if !born {
		events = append(events, taskEvent(task, perdure.TaskCreated{Task: task}))
	}
	for _, fact := range []perdure.Fact{left, done} {
		events = append(events, perdure.Event{Session: key.Session, Actor: "runtime", Turn: c.row.Turn, Call: key.Call, Fact: fact})
	}
	stamp(events, now)
	if err := tx.Append(key.Session, events); err != nil {
		return task, err
	}
	if born { // only the lane changes
		change, err := c.e.updateTask(tx, task, perdure.TaskUpdate{Attempt: task.Attempt, Lane: perdure.Background, Wake: task.Wake})
		return change.Task, err
	}
	_, _, err = tx.CreateTask(task)
	return task, err
}

// mayDetach refuses a call for which there is no place among those that left the foreground: they have a cap of their own,
// and count in the process (BG16). Limit: no place.
func (e *Effects) mayDetach(tx store.Reader, session perdure.SessionID) error {
	counts, err := tx.CountTasks(perdure.TaskRunning, session)
	if err != nil {
		return err
	}
	detached := e.cfg.Runner.Detached(session)
	if len(counts) > 0 {
		detached = max(detached, counts[0].Detached)
	}
	_, ofProcess := e.cfg.Runner.Places(session)
	return e.cfg.Overflow.AdmitDetached(e.slotCaps(), perdure.SlotUse{Detached: detached, PerProcess: ofProcess})
}

// callTask is a call that becomes a task.
type callTask struct {
	owner  *owner
	row    perdure.Call
	at     time.Time // of the message that asks
	secret perdure.Secret
	name   string
	origin perdure.Origin
}

// taskOfCall makes the record of a call that is a task, without its state. Its ids are derived from the call (TK1).
func (e *Effects) taskOfCall(c callTask) perdure.Task {
	task := perdure.Task{
		Session: c.owner.session, RootSession: c.owner.root(), Kind: perdure.KindBackgroundTool, Turn: c.row.Turn, Call: c.row.Key.Call,
		Origin: c.origin, Tool: c.row.Tool, ArgsHash: c.row.Fingerprint, DisplayName: orElse(c.name, c.row.Tool), Class: c.row.Class,
		Lane: perdure.Background, Attempt: 1, Delivered: perdure.NotDelivered, Delivery: perdure.ToLoop, Wake: perdure.WakeContinue,
		Spec: perdure.TaskSpec{Tool: c.row.Tool, Arguments: c.row.Args, Reattachable: c.row.Class.Repeatable(), SignalOnCompletion: true},
	}
	task.StallMS = e.stallOf(c.row.Tool).Milliseconds()
	if t, ok := e.tool(c.row.Tool); ok {
		task.Kind = kindOf(t)
	}
	if c.origin == perdure.OriginRouted {
		task.Wake = perdure.WakeNotify // DL6
	}
	return spawnOrder{owner: c.owner, at: c.at, task: task}.named(c.secret)
}

// placeholder answers the call in the transcript, at once and without an error; what it comes to is a notification (LN8).
func placeholder(task perdure.Task, left perdure.ToolDetached) perdure.ToolResult {
	switch left.Reason {
	case perdure.DetachedByBudget:
		budget := time.Duration(left.TimeoutSeconds * float64(time.Second))
		return dispatch.BudgetPlaceholder(task.Tool, task.ID, budget, task.DeadlineAt).Result(left.CallID)
	case perdure.DetachedByAsking:
		p := dispatch.RoutedPlaceholder(task.Tool, task.ID, task.DeadlineAt)
		p.Reason, p.Message = "awaiting_input", "Waiting for an answer — use check_background_tool to wait or cancel."
		return p.Result(left.CallID)
	}
	return dispatch.RoutedPlaceholder(task.Tool, task.ID, task.DeadlineAt).Result(left.CallID)
}
