package effect

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// ScheduledRun is the run that a fire starts. It is judged with the permissions that its session
// has at that moment.
type ScheduledRun struct {
	Task perdure.TaskID

	owner       *core.Owner
	task        perdure.Task
	permissions []perdure.Permission
	refusal     *tool.Result // if set, the run fails at once with this result
	claimed     perdure.Call // set in the commit, and read after it
	started     perdure.Task // set in the commit, and read after it
}

// scheduledByModel is the owner of schedules that a model created.
const scheduledByModel = "agent"

// schedulePort gives a call the schedules of its session.
type schedulePort struct {
	e *Effects
	*environment.Caller
}

var _ tool.Schedules = (*schedulePort)(nil)

// CreateSchedule creates a schedule of the port's session. The tool is judged now too, so that a
// denied tool is refused here and not at the first fire. If an approval is needed, each fire asks.
func (p *schedulePort) CreateSchedule(ctx context.Context, o tool.ScheduleRequest) (perdure.Schedule, error) {
	s := o.Schedule
	s.ID, s.Session, s.Owner = "", p.Owner.Session, scheduledByModel
	known := p.e.secrets.Known(s.Session)
	s.Title, s.Description, s.Action.Message = secretargs.MaskKnown(known, s.Title), secretargs.MaskKnown(known, s.Description),
		secretargs.MaskKnown(known, s.Action.Message)
	if s.Action.Args, _ = secretargs.MaskKnownJSON(known, s.Action.Args); secretargs.HasKnownMark(s.Action.Args) {
		return s, &tool.Denied{Result: secretargs.LostResult()}
	}
	if s.Action.Tool != "" {
		target, ok := p.e.toolset.Lookup(p.Owner.Agent, p.Owner.HasDetachedWork, s.Action.Tool)
		if !ok {
			return s, &tool.Denied{Result: tool.Error("Unknown tool: " + s.Action.Tool)}
		}
		call := tool.Call{Session: s.Session, Turn: p.Turn, ID: p.Call, Tool: s.Action.Tool, Args: s.Action.Args,
			Class: target.Spec().Class}
		if j := p.e.admission.Judge(ctx, p.Owner.Agent, target, call, p.Read); j.Refusal != nil {
			return s, &tool.Denied{Result: *j.Refusal}
		}
	}
	return p.e.core.Schedule(ctx, s, &core.ScheduleCall{Call: p.Call, Turn: p.Turn, At: p.At, Monitor: o.Monitor})
}

// Schedules returns the schedules of the port's session.
func (p *schedulePort) Schedules(ctx context.Context) (list []perdure.Schedule, err error) {
	return list, p.e.core.Store.View(ctx, func(r store.Reader) error {
		list, err = r.Schedules().List(store.ScheduleFilter{Session: p.Owner.Session})
		return err
	})
}

// CancelSchedule cancels a schedule of the port's session.
func (p *schedulePort) CancelSchedule(ctx context.Context, id perdure.ScheduleID, why string) (perdure.Schedule, error) {
	return p.e.EndSchedule(ctx, p.Owner.Session, id,
		taskrecord.CancelIntent{By: "agent", Why: secretargs.MaskKnown(p.e.secrets.Known(p.Owner.Session), why)}, false)
}

// PlanScheduled looks up and judges the run of a fire, before the commit of the fire. If the tool
// is gone or denied, the run fails. The ids derive from the schedule and the nominal time, so that
// a repeated fire starts no second run.
func (e *Effects) PlanScheduled(ctx context.Context, s perdure.Schedule, nominal time.Time) (*ScheduledRun, error) {
	var row store.Session
	var o *core.Owner
	err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
		if row, err = r.Sessions().Get(s.Session); err == nil {
			o, err = core.ReadOwner(r, s.Session)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fire schedule %s: %w", s.ID, err)
	}
	parts := []string{string(s.ID), nominal.UTC().Format(time.RFC3339Nano)}
	task := perdure.Task{
		ID:      perdure.DeriveID[perdure.TaskID](row.Secret, nominal, parts...),
		Run:     perdure.DeriveID[perdure.RunID](row.Secret, nominal, parts...),
		Session: s.Session, RootSession: o.Root(), Kind: perdure.KindBackgroundTool,
		Parent: s.Monitor, Origin: perdure.OriginSchedule,
		Tool: s.Action.Tool, DisplayName: s.Title, Lane: perdure.Background, Class: perdure.AtMostOnce,
		Delivery: perdure.ToLoop, Wake: perdure.WakeContinue,
		Spec: perdure.TaskSpec{
			Tool: s.Action.Tool, Arguments: s.Action.Args, SignalOnCompletion: s.Action.Signal,
			Schedule: s.ID, ScheduleType: s.Type(),
			Cron: s.Cron, At: s.At, Zone: s.Zone, Nominal: nominal,
		},
	}
	if !s.Action.Signal {
		task.Delivery, task.Wake = perdure.Manual, perdure.WakeNone
	}
	run := &ScheduledRun{Task: task.ID, owner: o}
	if run.task, err = e.judgeScheduled(ctx, run, task, s.Owner == scheduledByModel); err == nil && run.refusal == nil {
		err = e.tasks.Prepare(ctx, run.task, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("fire schedule %s: %w", s.ID, err)
	}
	return run, nil
}

// judgeScheduled fills in what the tool declares, and what hooks and policies decide. read says
// that the model that created the schedule may have read untrusted input; at a fire this is not
// known.
func (e *Effects) judgeScheduled(ctx context.Context, run *ScheduledRun, task perdure.Task,
	read bool) (_ perdure.Task, err error) {
	target, ok := e.toolset.Lookup(run.owner.Agent, run.owner.HasDetachedWork, task.Tool)
	if !ok {
		gone := tool.Error("Unknown tool: " + task.Tool)
		run.refusal = &gone
		task.ArgsHash, err = perdure.Fingerprint(task.Tool, task.Spec.Arguments)
		return task, err
	}
	spec := target.Spec()
	task.Kind = taskrecord.KindOf(target)
	task.Class, task.StallMS, task.Spec.Reattachable = spec.Class, max(spec.Stall, 0).Milliseconds(),
		spec.Class.Repeatable()
	j := e.admission.Judge(ctx, run.owner.Agent, target, tool.Call{
		Session: task.Session, ID: perdure.CallID(task.Run), Tool: task.Tool,
		Args: task.Spec.Arguments, Class: spec.Class,
	}, read)
	run.permissions, run.refusal, task.Spec.Arguments = j.Permissions, j.Refusal, j.Args
	if run.refusal == nil {
		run.refusal = e.admission.RateLimited(ctx, run.owner.Session, run.owner.Agent, target)
	}
	task.ArgsHash, err = perdure.Fingerprint(task.Tool, j.Args)
	return task, err
}

// Reset clears what an undone transaction claimed. Every run of the transaction starts with it,
// because the next run may not get as far as StartScheduled.
func (run *ScheduledRun) Reset() { run.claimed, run.started = perdure.Call{}, perdure.Task{} }

// StartScheduled adds the run to the commit of its fire: it runs, queues, or waits for an approval.
// Limit: there is no slot for it, and nothing was written.
func (e *Effects) StartScheduled(tx store.Tx, run *ScheduledRun) error {
	run.Reset()
	if run.refusal != nil {
		return e.failScheduled(tx, run)
	}
	e.tasks.Starting.Add(run.Task)
	spawned, claimed, err := e.records.SpawnIn(tx, taskrecord.Request{Owner: run.owner, Permissions: run.permissions, FromSchedule: true},
		run.task)
	run.claimed, run.started = claimed, spawned.Task
	return err
}

// failScheduled adds a run that has failed.
func (e *Effects) failScheduled(tx store.Tx, run *ScheduledRun) error {
	task := run.task
	task.State, task.Attempt, task.Delivered, task.CreatedAt, task.UpdatedAt = perdure.TaskQueued, 1,
		perdure.NotDelivered, tx.Now(), tx.Now()
	events := []perdure.Event{taskrecord.Event(task, perdure.TaskCreated{Task: task})}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil {
		return err
	}
	row := perdure.Call{Key: task.LedgerKey(), Task: task.ID, Tool: task.Tool, Args: task.Spec.Arguments,
		Class: task.Class}
	u := e.tasks.Judge(task, row, *run.refusal, dispatch.End{}).Update
	u.Attempt = 1
	_, err := e.records.Update(tx, task, u)
	return err
}

// AfterCommit is called with the outcome of the commit, and starts the run. If only the answer of
// the commit was lost, the run starts all the same. Started reports whether the run is stored.
func (e *Effects) AfterCommit(ctx context.Context, run *ScheduledRun, failed error) bool {
	starts := run.claimed.Token != "" && (failed == nil || e.tasks.OwnsClaim(ctx, run.claimed))
	if starts {
		e.tasks.Run(taskrun.Claimed{Task: run.started, Row: run.claimed, Owner: run.owner}, taskrun.FreshTask)
	} else {
		e.tasks.Starting.Drop(run.Task)
		e.core.SlotFreed()
	}
	if failed == nil {
		e.tasks.Evict(ctx, run.owner.Session)
	}
	return starts || failed == nil
}

// EndSchedule cancels a schedule with its monitor and runs, and removes it if remove is set, in one
// commit. An empty session means any. NotFound: there is no such schedule, or it belongs to another
// session.
func (e *Effects) EndSchedule(ctx context.Context, session perdure.SessionID, id perdure.ScheduleID, wish taskrecord.CancelIntent,
	remove bool) (s perdure.Schedule, err error) {
	var tree []perdure.Task
	err = e.core.Store.InTx(store.Urgent(ctx), func(tx store.Tx) (err error) {
		tree = nil
		if s, err = taskrecord.LockSchedule(tx, session, id); err != nil {
			return err
		}
		record := s.Enabled || remove
		s = s.Disarm("canceled")
		s.UpdatedAt = tx.Now()
		err = tx.Schedules().Put(s, store.ScheduleCaps{})
		if m, failed := tx.Tasks().Get(s.Session, s.Monitor); err == nil && s.Monitor != "" && failed == nil &&
			m.State.Live() {
			tree, err = e.records.CancelTree(tx, m, wish)
		}
		if err == nil && record {
			err = e.records.AppendScheduleFact(tx, s, wish.By, perdure.ScheduleCanceled{Schedule: s.ID, By: wish.By, Why: wish.Why,
				Deleted: remove})
		}
		if err == nil && remove {
			_, err = tx.Schedules().Remove(id)
		}
		return err
	})
	if err != nil {
		return s, fmt.Errorf("cancel schedule %s: %w", id, err)
	}
	for _, t := range tree {
		e.tasks.SignalCancel(ctx, t)
	}
	e.core.Wake(s.Session)
	return s, nil
}

// CanSchedule checks whether a session's tool can be run by a schedule. Invalid or NotFound: it
// cannot; the error says why.
func (e *Effects) CanSchedule(r store.Reader, s perdure.Schedule) error {
	o, err := core.ReadOwner(r, s.Session)
	if err != nil || s.Action.Tool == "" {
		return err
	}
	target, ok := e.toolset.Lookup(o.Agent, o.HasDetachedWork, s.Action.Tool)
	if !ok {
		return fmt.Errorf("%w: Unknown tool: %s", perdure.Invalid, s.Action.Tool)
	}
	if _, runs := target.(tool.Background); !runs || target.Spec().Policy == tool.PolicyClientSide {
		return fmt.Errorf("%w: Tool does not support background execution: %s", perdure.Invalid, s.Action.Tool)
	}
	if faults := e.core.Tools.Validate(s.Action.Tool, s.Action.Args); faults != nil {
		return fmt.Errorf("%w: %s", perdure.Invalid, faults.Text)
	}
	return nil
}
