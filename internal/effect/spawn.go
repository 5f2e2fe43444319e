package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// spawnOrder is a background run as it was asked for, with its ids.
type spawnOrder struct {
	owner *owner
	at    time.Time    // of the message that asks; the ids are derived from it
	task  perdure.Task // without what only the store knows

	permissions []perdure.Permission // a person is asked first (AP2)
	repeats     string               // the call or task of unknown outcome that the run repeats as a new effect; empty: none
	fires       bool                 // a schedule asks, and each of its moments is an effect of its own
	beside      bool                 // the call itself became a task, which has the ids that the run would have
}

// spawn starts a background run of a tool, or queues it: the record, its claim and its event are one
// commit. The ids are derived, so that the same call spawns once, however often it runs (TK1, BG4).
// Nothing is read between the commit and the run.
func (e *Effects) spawn(ctx context.Context, o spawnOrder) (tool.Spawned, error) {
	spawned, err := e.spawnAs(ctx, o)
	if errors.Is(err, errOwnTask) {
		o.beside = true
		return e.spawnAs(ctx, o)
	}
	return spawned, err
}

// errOwnTask says that the derived ids are those of the task that the call itself became when it left its turn.
var errOwnTask = fmt.Errorf("%w: the call is a task of these ids", perdure.Conflict)

func (e *Effects) spawnAs(ctx context.Context, o spawnOrder) (tool.Spawned, error) {
	row, err := e.sessionRow(ctx, o.owner.session)
	if err != nil {
		return tool.Spawned{}, fmt.Errorf("spawn %s: %w", o.task.Tool, err)
	}
	task := o.named(row.Secret)
	if err := e.prepareTask(ctx, task, 1); err != nil {
		return tool.Spawned{}, fmt.Errorf("spawn %s: %w", o.task.Tool, err)
	}
	var claimed perdure.Call
	var spawned tool.Spawned
	e.starting.add(task.ID)
	err = e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		var err error
		spawned, claimed, err = e.spawnIn(tx, o, task)
		return err
	})
	started := claimed.Token != "" && (err == nil || e.owns(ctx, claimed))
	if started {
		e.runTask(claimedTask{task: spawned.Task, row: claimed, owner: o.owner}, freshTask)
	} else {
		e.starting.drop(task.ID)
		e.cfg.Freed() // a place may have become free before the run stood in the queue
	}
	e.cfg.Wake(o.owner.session)
	if err != nil && !started && !refusedWrite(err) && !errors.Is(err, perdure.Limit) { // it may stand in the queue, or wait for a person
		var stored perdure.Task
		found := e.readBack(ctx, func(r store.Reader) (err error) {
			stored, err = r.Task(task.Session, task.ID)
			return err
		})
		if found == nil {
			return tool.Spawned{Task: stored}, nil
		}
	}
	if err != nil && !started {
		return tool.Spawned{}, fmt.Errorf("spawn %s: %w", o.task.Tool, err)
	}
	e.evict(ctx, o.owner.session)
	return spawned, nil
}

// evict cancels the oldest live background tasks of a session that has more of them than it may, where that is the
// policy (BG17, BG18). The newest one is never the one that goes.
func (e *Effects) evict(ctx context.Context, session perdure.SessionID) {
	for e.cfg.Overflow == perdure.OverflowEvict && e.cfg.EvictCap > 0 {
		var live []perdure.Task
		err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			live, err = r.Tasks(store.TaskFilter{Session: session, States: []perdure.TaskState{
				perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput,
			}})
			return err
		})
		live = slices.DeleteFunc(live, func(t perdure.Task) bool {
			return t.CancelRequested() || t.Kind != perdure.KindBackgroundTool && t.Kind != perdure.KindExternalAgent // on its way out, or none of these
		})
		if err != nil || e.cfg.Overflow.Excess(e.slotCaps(), len(live)) == 0 {
			return // what could not be read is counted at the next start
		}
		oldest := live[0]
		e.cfg.Log.Warn("a background task is evicted", "task", oldest.ID, "tool", oldest.Tool, "session", session, "cap", e.cfg.EvictCap)
		if _, err := e.CancelTask(ctx, oldest.ID, CancelWish{By: "system", Why: "evicted"}); err != nil {
			e.cfg.Log.Error("a background task was not evicted", "task", oldest.ID, "error", err)
			return
		}
	}
}

// owns reads back whether a claim was committed whose answer was lost (LG5).
func (e *Effects) owns(ctx context.Context, claimed perdure.Call) bool {
	if claimed.Token == "" {
		return false
	}
	var row perdure.Call
	err := e.readBack(ctx, func(r store.Reader) (err error) {
		row, err = r.Call(claimed.Key)
		return err
	})
	return err == nil && row.Token == claimed.Token
}

// readBack reads until the store answers: who does not know whether a commit was made can neither go on nor give up. It
// ends with the runtime; then the next start finds out.
func (e *Effects) readBack(ctx context.Context, read func(store.Reader) error) error {
	for attempt := 1; ; attempt++ {
		err := e.cfg.Store.View(context.WithoutCancel(ctx), read)
		if err == nil || errors.Is(err, perdure.NotFound) || store.Broken(err) {
			return err
		}
		if e.cfg.Ends() {
			return err
		}
		select {
		case <-time.After(perdure.RetryDelay(min(attempt, 3), 0, "read back") / 20):
		case <-e.cfg.Runner.Done():
			return err
		}
	}
}

// named gives the task its derived ids.
func (o spawnOrder) named(secret perdure.Secret) perdure.Task {
	t := o.task
	parts := []string{string(t.Session), string(t.Call)}
	if o.beside {
		parts = append(parts, "spawned")
	}
	t.ID = perdure.DeriveID[perdure.TaskID](secret, o.at, parts...)
	t.Run = perdure.DeriveID[perdure.RunID](secret, o.at, parts...)
	if o.owner != nil {
		t.Trace = o.owner.trace
	}
	return t
}

// spawnIn adds the task where there is a place, or queues it where the policy allows (BG16, BG17).
func (e *Effects) spawnIn(tx store.Tx, o spawnOrder, task perdure.Task) (tool.Spawned, perdure.Call, error) {
	if stored, err := tx.Task(task.Session, task.ID); err == nil {
		if stored.FromCall() {
			return tool.Spawned{}, perdure.Call{}, errOwnTask
		}
		return tool.Spawned{Task: stored}, perdure.Call{}, nil // a replay
	}
	if !o.fires {
		if err := e.withholdTask(tx, task, repeat{despite: o.repeats}); err != nil {
			return tool.Spawned{}, perdure.Call{}, err
		}
	}
	if len(o.permissions) > 0 {
		if err := e.reserveTask(tx, o.owner, task); err != nil {
			return tool.Spawned{}, perdure.Call{}, err
		}
		spawned, err := e.askFirst(tx, task, o.permissions)
		return spawned, perdure.Call{}, err
	}
	free, position, err := e.begins(tx, task.Session)
	if err == nil {
		err = e.reserveTask(tx, o.owner, task) // last: who is refused has written nothing
	}
	if err != nil {
		return tool.Spawned{}, perdure.Call{}, err
	}
	task.State, task.Attempt, task.Delivered = perdure.TaskQueued, 1, perdure.NotDelivered
	task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
	var claimed perdure.Call
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", e.cfg.Worker, 1
		task.StartedAt, task.HeartbeatAt = task.CreatedAt, task.CreatedAt
		task.DeadlineAt = task.CreatedAt.Add(e.deadlineOf(task))
	}
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task})}
	stamp(events, tx.Now())
	if err := tx.Append(task.Session, events); err != nil {
		return tool.Spawned{}, claimed, err
	}
	if _, _, err := tx.CreateTask(task); err != nil {
		return tool.Spawned{}, claimed, err
	}
	if free {
		if claimed, err = e.claimTask(tx, task); err != nil {
			return tool.Spawned{}, claimed, err
		}
		position = 0
	}
	return tool.Spawned{Task: task, Position: position}, claimed, nil
}

// askFirst adds a task that waits for a person before it runs. It holds no place (TK15).
func (e *Effects) askFirst(tx store.Tx, task perdure.Task, permissions []perdure.Permission) (tool.Spawned, error) {
	session, err := tx.Session(task.Session)
	if err != nil {
		return tool.Spawned{}, err
	}
	task.State, task.Attempt, task.Delivered = perdure.TaskAwaitingInput, 1, perdure.NotDelivered
	task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
	task.InputRequest = &perdure.InputRequest{
		ID: perdure.DeriveID[perdure.RequestID](session.Secret, task.CreatedAt, string(task.ID)), Kind: "approval", Prompt: task.DisplayName,
	}
	approval := e.approvalOf(task, permissions, task.DisplayName, tx.Now())
	approval.ID = perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(task.ID))
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task}), taskEvent(task, perdure.ApprovalRequested{Approval: approval})}
	stamp(events, tx.Now())
	if err := tx.Append(task.Session, events); err != nil {
		return tool.Spawned{}, err
	}
	if _, _, err := tx.CreateTask(task); err != nil {
		return tool.Spawned{}, err
	}
	return tool.Spawned{Task: task}, tx.PutApproval(approval)
}

// begins is place for a run that is new. An engine that does not run claims nothing: before Run its worker is not registered,
// and to others what it claimed would be a dead one's (LG19). The run waits in the queue for the next start.
func (e *Effects) begins(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	free, position, err = e.place(tx, session)
	if free && !e.cfg.Works() {
		return false, 1, err
	}
	return free, position, err
}

// place says whether a run of a session may start now, and otherwise at which position it would queue.
// Limit: neither. The caps are counted in the store, and what has not really returned counts too (BG16).
func (e *Effects) place(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	counts, err := tx.CountTasks(perdure.TaskRunning, session)
	if err != nil {
		return false, 0, err
	}
	running := 0
	if len(counts) > 0 {
		running = counts[0].Places()
	}
	queued, err := countTasks(tx, perdure.TaskQueued, session)
	if err != nil {
		return false, 0, err
	}
	ofSession, ofProcess := 0, 0
	if e.cfg.PerSession > 0 || e.cfg.PerProcess > 0 { // counting them takes time where they are many
		ofSession, ofProcess = e.cfg.Runner.Places(session)
	}
	use := perdure.SlotUse{PerSession: max(running, ofSession), PerProcess: ofProcess, Queued: queued}
	return e.cfg.Overflow.Admit(e.slotCaps(), use)
}

// slotCaps bounds the background runs of this worker.
func (e *Effects) slotCaps() perdure.SlotCaps {
	return perdure.SlotCaps{
		PerSession: e.cfg.PerSession, PerProcess: e.cfg.PerProcess, Detached: e.cfg.PerSessionDetached, Queued: e.cfg.QueueLength, Live: e.cfg.EvictCap,
	}
}

// countTasks counts the tasks of one session in a state.
func countTasks(r store.Reader, state perdure.TaskState, session perdure.SessionID) (int, error) {
	counts, err := r.CountTasks(state, session)
	if err != nil || len(counts) == 0 {
		return 0, err
	}
	return counts[0].N, nil
}

// claimTask claims the task's row in the effect ledger: a new one, or the one of an earlier execution.
func (e *Effects) claimTask(tx store.Tx, task perdure.Task) (perdure.Call, error) {
	fingerprint, err := perdure.Fingerprint(task.Tool, task.Spec.Arguments)
	if err != nil {
		return perdure.Call{}, err
	}
	next := perdure.Call{
		Key: task.LedgerKey(), Turn: task.Turn, Task: task.ID, Attempt: task.Attempt, Tool: task.Tool, Args: task.Spec.Arguments,
		Fingerprint: fingerprint, Class: task.Class, Token: newToken(), Worker: e.cfg.Worker,
	}
	outcome, row, err := tx.Claim(next, e.live(tx))
	if err != nil || outcome == perdure.Claimed {
		return row, err
	}
	old := row
	row.Token, row.Worker, row.Attempt, row.Executions = next.Token, next.Worker, task.Attempt, task.Executions
	switch outcome {
	case perdure.AlreadyUnknown: // an operator said: run it again
		row.State, row.Result = perdure.CallRunning, nil
		return row, tx.ResolveCall(row, "operator")
	case perdure.ClaimAbandoned, perdure.ClaimConflict:
		return row, tx.TakeCall(old, row)
	}
	return row, fmt.Errorf("claim the run of task %s: %w: %s", task.ID, perdure.Conflict, outcome)
}

// callTime is the journaled time of the message that holds a call: the same on every replay (N4, TK1).
func callTime(s *perdure.Session, id perdure.CallID) time.Time {
	for _, m := range slices.Backward(s.Transcript) {
		for _, call := range m.Calls() {
			if call.ID == id {
				return m.At
			}
		}
	}
	return s.CreatedAt
}

// stallOf is how long a tool may show no sign of life; 0: for ever.
func (e *Effects) stallOf(name string) time.Duration {
	if t, ok := e.tool(name); ok {
		return max(t.Spec().Stall, 0)
	}
	return 0
}

// deadlineOf is how long an execution of a task may last (LN4).
func (e *Effects) deadlineOf(task perdure.Task) time.Duration {
	if t, ok := e.tool(task.Tool); ok {
		return tool.DeadlineOf(t, task.Spec.Arguments)
	}
	return tool.DefaultDeadline
}

// claimRouted makes a call a task from its start, because the host's policy says so: placeholder, task and claim are the
// commit of its start, and it runs, or waits in the queue, by the caps of BG16 (LN2).
func (s *step) claimRouted(c perdure.ClaimCall) error {
	free, position, err := s.e.begins(s.tx, s.d.ID)
	var full *perdure.NoSlot
	if errors.As(err, &full) {
		if err := s.giveBack(c.Call.ID); err != nil {
			return err
		}
		refused := perdure.Refused(c.Call.ID, perdure.ErrorRejected, full.Text)
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
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = s.now, s.now, s.now.Add(s.e.deadlineOf(task))
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
