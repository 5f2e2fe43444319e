package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Scheduled is the run that a fire is to start. It was judged with the rights of its session at that moment (SC26).
type Scheduled struct {
	Task perdure.TaskID

	owner       *owner
	task        perdure.Task
	permissions []perdure.Permission
	refusal     *tool.Result // the run ends at once, with this
	claimed     perdure.Call // only touched in the commit, and after it
	started     perdure.Task // likewise
}

// ScheduleCall is the call of a model that asks for a schedule.
type ScheduleCall struct {
	Call    perdure.CallID
	Turn    perdure.TurnID
	At      time.Time // the journaled moment of its message (N4)
	Monitor bool      // a task stands for the schedule
}

// scheduledByModel owns the schedules that a model made.
const scheduledByModel = "agent"

var _ tool.Schedules = (*taskPort)(nil)

// CreateSchedule makes a schedule of the port's session. A tool is judged now, too, so that one which is denied is not put off; who
// is asked about it is asked at each fire (SC26).
func (p *taskPort) CreateSchedule(ctx context.Context, o tool.ScheduleOrder) (perdure.Schedule, error) {
	s := o.Schedule
	s.ID, s.Session, s.Owner = "", p.owner.session, scheduledByModel
	known := p.e.known(s.Session)
	s.Title, s.Description, s.Action.Message = veil.Without(known, s.Title), veil.Without(known, s.Description), veil.Without(known, s.Action.Message)
	if s.Action.Args, _ = veil.WithoutJSON(known, s.Action.Args); veil.Stands(s.Action.Args) {
		return s, &tool.Denied{Result: veil.Lost()}
	}
	if s.Action.Tool != "" {
		target, ok := p.e.lookup(p.owner.agent, p.owner.left, s.Action.Tool)
		if !ok {
			return s, &tool.Denied{Result: tool.Error("Unknown tool: " + s.Action.Tool)}
		}
		call := tool.Call{Session: s.Session, Turn: p.turn, ID: p.call, Tool: s.Action.Tool, Args: s.Action.Args, Class: target.Spec().Class}
		if j := p.e.judge(ctx, p.owner.agent, target, call, p.read); j.refusal != nil {
			return s, &tool.Denied{Result: *j.refusal}
		}
	}
	return p.e.cfg.Schedule(ctx, s, &ScheduleCall{Call: p.call, Turn: p.turn, At: p.at, Monitor: o.Monitor})
}

// Schedules returns the schedules of the port's session.
func (p *taskPort) Schedules(ctx context.Context) (list []perdure.Schedule, err error) {
	return list, p.e.cfg.Store.View(ctx, func(r store.Reader) error {
		list, err = r.Schedules(store.ScheduleFilter{Session: p.owner.session})
		return err
	})
}

// CancelSchedule ends a schedule of the port's session.
func (p *taskPort) CancelSchedule(ctx context.Context, id perdure.ScheduleID, why string) (perdure.Schedule, error) {
	return p.e.EndSchedule(ctx, p.owner.session, id, CancelWish{By: "agent", Why: veil.Without(p.e.known(p.owner.session), why)}, false)
}

// PlanScheduled looks up and judges what a fire would run, before the commit that fires. A tool that is gone, or that may not
// run, gives a run that fails (SC26). The ids come from schedule and nominal time (N4).
func (e *Effects) PlanScheduled(ctx context.Context, s perdure.Schedule, nominal time.Time) (*Scheduled, error) {
	var row store.Session
	var o *owner
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if row, err = r.Session(s.Session); err == nil {
			o, err = readOwner(r, s.Session)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fire schedule %s: %w", s.ID, err)
	}
	parts := []string{string(s.ID), nominal.UTC().Format(time.RFC3339Nano)}
	task := perdure.Task{
		ID: perdure.DeriveID[perdure.TaskID](row.Secret, nominal, parts...), Run: perdure.DeriveID[perdure.RunID](row.Secret, nominal, parts...),
		Session: s.Session, RootSession: o.root(), Kind: perdure.KindBackgroundTool, Parent: s.Monitor, Origin: perdure.OriginSchedule,
		Tool: s.Action.Tool, DisplayName: s.Title, Lane: perdure.Background, Class: perdure.AtMostOnce, Delivery: perdure.ToLoop, Wake: perdure.WakeContinue,
		Spec: perdure.TaskSpec{
			Tool: s.Action.Tool, Arguments: s.Action.Args, SignalOnCompletion: s.Action.Signal, Schedule: s.ID, ScheduleType: s.Type(),
			Cron: s.Cron, At: s.At, Zone: s.Zone, Nominal: nominal,
		},
	}
	if !s.Action.Signal { // SC27
		task.Delivery, task.Wake = perdure.Manual, perdure.WakeNone
	}
	run := &Scheduled{Task: task.ID, owner: o}
	if run.task, err = e.judgeScheduled(ctx, run, task, s.Owner == scheduledByModel); err == nil && run.refusal == nil {
		err = e.prepareTask(ctx, run.task, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("fire schedule %s: %w", s.ID, err)
	}
	return run, nil
}

// judgeScheduled fills in what the tool says of itself, and what hooks and policies say of the run. Whether a model that made
// the schedule had read what came from outside, nobody knows at a fire: read says that it may have.
func (e *Effects) judgeScheduled(ctx context.Context, run *Scheduled, task perdure.Task, read bool) (_ perdure.Task, err error) {
	target, ok := e.lookup(run.owner.agent, run.owner.left, task.Tool)
	if !ok {
		gone := tool.Error("Unknown tool: " + task.Tool)
		run.refusal = &gone
		task.ArgsHash, err = perdure.Fingerprint(task.Tool, task.Spec.Arguments)
		return task, err
	}
	spec := target.Spec()
	task.Kind = kindOf(target)
	task.Class, task.StallMS, task.Spec.Reattachable = spec.Class, max(spec.Stall, 0).Milliseconds(), spec.Class.Repeatable()
	j := e.judge(ctx, run.owner.agent, target, tool.Call{
		Session: task.Session, ID: perdure.CallID(task.Run), Tool: task.Tool, Args: task.Spec.Arguments, Class: spec.Class,
	}, read)
	run.permissions, run.refusal, task.Spec.Arguments = j.permissions, j.refusal, j.args
	if run.refusal == nil {
		run.refusal = e.held(ctx, run.owner.session, run.owner.agent, target)
	}
	task.ArgsHash, err = perdure.Fingerprint(task.Tool, j.args)
	return task, err
}

// Forget forgets what a transaction that was undone claimed: each run of it begins with that, since it may not come to
// StartScheduled again.
func (run *Scheduled) Forget() { run.claimed, run.started = perdure.Call{}, perdure.Task{} }

// StartScheduled adds the run to the commit of its fire: it runs, or waits in the queue or for a person. Limit: there is no
// place for it, and nothing was written.
func (e *Effects) StartScheduled(tx store.Tx, run *Scheduled) error {
	run.Forget()
	if run.refusal != nil {
		return e.failScheduled(tx, run)
	}
	e.starting.add(run.Task)
	spawned, claimed, err := e.spawnIn(tx, spawnOrder{owner: run.owner, permissions: run.permissions, fires: true}, run.task)
	run.claimed, run.started = claimed, spawned.Task
	return err
}

// failScheduled adds a run that has failed.
func (e *Effects) failScheduled(tx store.Tx, run *Scheduled) error {
	task := run.task
	task.State, task.Attempt, task.Delivered, task.CreatedAt, task.UpdatedAt = perdure.TaskQueued, 1, perdure.NotDelivered, tx.Now(), tx.Now()
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task})}
	stamp(events, tx.Now())
	if err := tx.Append(task.Session, events); err != nil {
		return err
	}
	if _, _, err := tx.CreateTask(task); err != nil {
		return err
	}
	row := perdure.Call{Key: task.LedgerKey(), Task: task.ID, Tool: task.Tool, Args: task.Spec.Arguments, Class: task.Class}
	u := e.judgeTask(task, row, *run.refusal, dispatch.End{}).update
	u.Attempt = 1
	_, err := e.updateTask(tx, task, u)
	return err
}

// Started is told the outcome of the commit: the run begins, also when only the answer of the commit was lost. It reports
// whether the run stands.
func (e *Effects) Started(ctx context.Context, run *Scheduled, failed error) bool {
	begins := run.claimed.Token != "" && (failed == nil || e.owns(ctx, run.claimed))
	if begins {
		e.runTask(claimedTask{task: run.started, row: run.claimed, owner: run.owner}, freshTask)
	} else {
		e.starting.drop(run.Task)
		e.cfg.Freed()
	}
	if failed == nil {
		e.evict(ctx, run.owner.session)
	}
	return begins || failed == nil
}

// noteRun follows the end of a run into its schedule and its monitor, in the same commit (SC17, SC28).
func (e *Effects) noteRun(tx store.Tx, run perdure.Task) error {
	if run.Spec.Schedule == "" {
		return nil
	}
	s, err := tx.Schedule(run.Spec.Schedule)
	if errors.Is(err, perdure.NotFound) { // it was deleted
		return nil
	}
	if err != nil {
		return err
	}
	failed := run.State == perdure.TaskFailed || run.State == perdure.TaskUnknown
	if run.State != perdure.TaskSucceeded { // what comes next is told, whatever it is
		s.Told = ""
	}
	if s, err = e.CountFailure(tx, s, failed, run.State == perdure.TaskSucceeded); err != nil {
		return err
	}
	if err := tx.PutSchedule(s, store.ScheduleCaps{}); err != nil {
		return err
	}
	u := perdure.TaskUpdate{Detail: fmt.Sprintf("%d fires; the run of %s %s", s.Count, run.Spec.Nominal.UTC().Format(time.RFC3339), run.State)}
	if s.Type() == "oneshot" {
		u.State, u.Summary, u.Error, u.ResultPath, u.LogPath = run.State, run.Summary, run.Error, run.ResultPath, run.LogPath
	}
	return e.updateMonitor(tx, s, u)
}

// foldRun keeps a run's success to itself where its schedule tells changes only and the run before came to the same (SC27). came is
// what is to be noted for the next run; empty: nothing.
func (e *Effects) foldRun(r store.Reader, run perdure.Task, u perdure.TaskUpdate, body []byte) (_ perdure.TaskUpdate, came string, err error) {
	if run.Spec.Schedule == "" || u.State != perdure.TaskSucceeded {
		return u, "", nil
	}
	s, err := r.Schedule(run.Spec.Schedule)
	if errors.Is(err, perdure.NotFound) || err == nil && s.Action.Deliver != perdure.DeliverChanges {
		return u, "", nil
	}
	sum := sha256.Sum256(body)
	if came = hex.EncodeToString(sum[:]); s.Told == came {
		u.Delivery, u.Wake, came = perdure.Manual, perdure.WakeNone, ""
	}
	return u, came, err
}

// noteCame notes what a run came to, in the commit of its end.
func (e *Effects) noteCame(tx store.Tx, run perdure.Task, came string) error {
	if came == "" {
		return nil
	}
	s, err := tx.Schedule(run.Spec.Schedule)
	if err != nil {
		return err
	}
	s.Told = came
	return tx.PutSchedule(s, store.ScheduleCaps{})
}

// CountFailure notes how a fire ended. After too many failures in a row the schedule is paused, and the model is told (SC17).
// The caller puts the schedule.
func (e *Effects) CountFailure(tx store.Tx, s perdure.Schedule, failed, succeeded bool) (perdure.Schedule, error) {
	switch {
	case failed:
		s.Failures++
	case succeeded:
		s.Failures = 0
	}
	s.UpdatedAt = tx.Now()
	if !s.Enabled || e.cfg.ScheduleFailures <= 0 || s.Failures < e.cfg.ScheduleFailures {
		return s, nil
	}
	why := fmt.Sprintf("%d fires in a row failed", s.Failures)
	s = s.Disarm(why)
	text := fmt.Sprintf("Schedule paused: %s.\n- schedule_id: %s\n- title: %s", why, s.ID, s.Title)
	notice := perdure.Message{
		ID: NewMessageID(), Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}, At: tx.Now(),
	}
	return s, e.tellSchedule(tx, s, byRuntime, perdure.SchedulePaused{Schedule: s.ID, Why: why, By: byRuntime, Notice: notice})
}

// CloseMonitor ends the monitor of a one-shot that will not run.
func (e *Effects) CloseMonitor(tx store.Tx, s perdure.Schedule, why string) error {
	return e.updateMonitor(tx, s, perdure.TaskUpdate{
		State: perdure.TaskFailed, Summary: why, Error: &perdure.TaskError{Kind: perdure.ErrorRejected, Message: why}, Detail: "it did not fire",
	})
}

// updateMonitor writes to the task that stands for a schedule, where there is one that lives.
func (e *Effects) updateMonitor(tx store.Tx, s perdure.Schedule, u perdure.TaskUpdate) error {
	if s.Monitor == "" {
		return nil
	}
	m, err := tx.Task(s.Session, s.Monitor)
	if errors.Is(err, perdure.NotFound) || err == nil && m.State.Terminal() {
		return nil
	}
	if err == nil {
		u.Attempt = m.Attempt
		_, err = e.updateTask(tx, m, u)
	}
	return err
}

// tellSchedule appends a fact about a schedule.
func (e *Effects) tellSchedule(tx store.Tx, s perdure.Schedule, by string, fact perdure.Fact) error {
	events := []perdure.Event{{Session: s.Session, Actor: by, Fact: fact}}
	stamp(events, tx.Now())
	return tx.Append(s.Session, events)
}

// cancelRuns disables the schedule of a monitor that is canceled, and cancels what runs of it, in the same commit (SC28).
func (e *Effects) cancelRuns(tx store.Tx, monitor perdure.Task, wish CancelWish) (all []perdure.Task, err error) {
	s, err := tx.Schedule(monitor.Spec.Schedule)
	if err == nil && (s.Enabled || !s.Waiting.IsZero()) {
		s = s.Disarm("canceled")
		s.UpdatedAt = tx.Now()
		err = errors.Join(e.tellSchedule(tx, s, wish.By, perdure.ScheduleCanceled{Schedule: s.ID, By: wish.By, Why: wish.Why}), tx.PutSchedule(s, store.ScheduleCaps{}))
	}
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return nil, err
	}
	return e.cancelRunsOf(tx, monitor.Session, monitor.Spec.Schedule, wish)
}

// cancelRunsOf cancels what runs of a schedule.
func (e *Effects) cancelRunsOf(tx store.Tx, session perdure.SessionID, id perdure.ScheduleID, wish CancelWish) (all []perdure.Task, err error) {
	open, err := tx.Tasks(store.TaskFilter{Session: session, States: []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}})
	for _, t := range open {
		if err != nil || t.Spec.Schedule != id || t.Kind == perdure.KindMonitor || t.CancelRequested() {
			continue
		}
		var tree []perdure.Task
		tree, err = e.cancelTree(tx, t, wish)
		all = append(all, tree...)
	}
	return all, err
}

// EndSchedule cancels a schedule with its monitor and what that runs, or removes it, in one commit (SC28). NotFound: there is
// none, or it is another session's; an empty session is any.
func (e *Effects) EndSchedule(ctx context.Context, session perdure.SessionID, id perdure.ScheduleID, wish CancelWish, remove bool) (s perdure.Schedule, err error) {
	var tree []perdure.Task
	err = e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) (err error) {
		tree = nil
		if s, err = HeldSchedule(tx, session, id); err != nil {
			return err
		}
		told := s.Enabled || remove
		s = s.Disarm("canceled")
		s.UpdatedAt = tx.Now()
		err = tx.PutSchedule(s, store.ScheduleCaps{})
		if m, failed := tx.Task(s.Session, s.Monitor); err == nil && s.Monitor != "" && failed == nil && m.State.Live() {
			tree, err = e.cancelTree(tx, m, wish)
		}
		if err == nil && told {
			err = e.tellSchedule(tx, s, wish.By, perdure.ScheduleCanceled{Schedule: s.ID, By: wish.By, Why: wish.Why, Deleted: remove})
		}
		if err == nil && remove {
			_, err = tx.RemoveSchedule(id)
		}
		return err
	})
	if err != nil {
		return s, fmt.Errorf("cancel schedule %s: %w", id, err)
	}
	for _, t := range tree {
		e.pushCancel(ctx, t)
	}
	e.cfg.Wake(s.Session)
	return s, nil
}

// HeldSchedule reads a schedule for a change of it: its session's row is locked first. NotFound: there is none, or it is
// another session's (SC22).
func HeldSchedule(tx store.Tx, session perdure.SessionID, id perdure.ScheduleID) (perdure.Schedule, error) {
	s, err := tx.Schedule(id)
	if err == nil && session != "" && s.Session != session {
		return perdure.Schedule{}, fmt.Errorf("schedule %s: %w", id, perdure.NotFound)
	}
	return s, err
}

// CanSchedule says whether a session's tool may be run by a schedule. Invalid or NotFound: why not.
func (e *Effects) CanSchedule(r store.Reader, s perdure.Schedule) error {
	o, err := readOwner(r, s.Session)
	if err != nil || s.Action.Tool == "" {
		return err
	}
	target, ok := e.lookup(o.agent, o.left, s.Action.Tool)
	if !ok {
		return fmt.Errorf("%w: Unknown tool: %s", perdure.Invalid, s.Action.Tool)
	}
	if _, runs := target.(tool.Background); !runs || target.Spec().Policy == tool.PolicyClientSide {
		return fmt.Errorf("%w: Tool does not support background execution: %s", perdure.Invalid, s.Action.Tool)
	}
	if faults := e.cfg.Tools.Validate(s.Action.Tool, s.Action.Args); faults != nil {
		return fmt.Errorf("%w: %s", perdure.Invalid, faults.Text)
	}
	return nil
}

// MonitorOf is the task that stands for a schedule (SC23).
func (e *Effects) MonitorOf(tx store.Tx, s perdure.Schedule, by perdure.CallKey, turn perdure.TurnID) (perdure.Task, error) {
	row, err := tx.Session(s.Session)
	if err != nil {
		return perdure.Task{}, err
	}
	root := row.Root
	task := perdure.Task{
		ID: s.Monitor, Session: s.Session, RootSession: root, Kind: perdure.KindMonitor, Turn: turn, Call: by.Call, Origin: perdure.OriginSpawned,
		Tool: s.Action.Tool, DisplayName: s.Title, Class: perdure.Pure, Lane: perdure.Background, State: perdure.TaskRunning, StateDetail: "Scheduled",
		Attempt: 1, Delivery: perdure.Manual, Wake: perdure.WakeNone, Delivered: perdure.NotDelivered,
		Spec: perdure.TaskSpec{
			Tool: s.Action.Tool, Arguments: s.Action.Args, SignalOnCompletion: s.Action.Signal, Schedule: s.ID, ScheduleType: s.Type(),
			Cron: s.Cron, At: s.At, Zone: s.Zone,
		},
		CreatedAt: tx.Now(), StartedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task})}
	stamp(events, tx.Now())
	if err := tx.Append(task.Session, events); err != nil {
		return perdure.Task{}, err
	}
	_, _, err = tx.CreateTask(task)
	return task, err
}
