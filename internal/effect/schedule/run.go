package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Run is the run that a fire starts. It is judged with the permissions that its session
// has at that moment.
type Run struct {
	Task perdure.TaskID

	owner       *core.Owner
	task        perdure.Task
	permissions []perdure.Permission
	refusal     *tool.Result // if set, the run fails at once with this result
	claimed     perdure.Call // set in the commit, and read after it
	started     perdure.Task // set in the commit, and read after it
}

// Reset clears what an undone transaction claimed. Every run of the transaction starts with it,
// because the next run may not get as far as Start.
func (run *Run) Reset() { run.claimed, run.started = perdure.Call{}, perdure.Task{} }

// Plan looks up and judges the run of a fire, before the commit of the fire. If the tool
// is gone or denied, the run fails. The ids derive from the schedule and the nominal time, so that
// a repeated fire starts no second run.
func (ss *Schedules) Plan(ctx context.Context, s perdure.Schedule, nominal time.Time) (*Run, error) {
	var row store.Session
	var o *core.Owner
	err := ss.core.Store.View(ctx, func(r store.Reader) (err error) {
		if row, err = r.Sessions().Get(s.Session); err == nil {
			o, err = core.ReadOwner(r, s.Session)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fire schedule %s: %w", s.ID, err)
	}
	o.Of(row)
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
	run := &Run{Task: task.ID, owner: o}
	if run.task, err = ss.judgeScheduled(ctx, run, task, s.Owner == scheduledByModel); err == nil && run.refusal == nil {
		err = ss.tasks.Prepare(ctx, run.task, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("fire schedule %s: %w", s.ID, err)
	}
	return run, nil
}

// judgeScheduled fills in what the tool declares, and what hooks and policies decide. read says
// that the model that created the schedule may have read untrusted input; at a fire this is not
// known.
func (ss *Schedules) judgeScheduled(ctx context.Context, run *Run, task perdure.Task,
	read bool) (_ perdure.Task, err error) {
	target, ok := ss.toolset.Lookup(run.owner.Agent, run.owner.HasDetachedWork, task.Tool)
	if !ok {
		gone := tool.Error("Unknown tool: " + task.Tool)
		run.refusal = &gone
		task.ArgsHash, err = perdure.Fingerprint(task.Tool, task.Spec.Arguments)
		return task, err
	}
	spec := target.Spec()
	task.Kind = taskrecord.KindOf(target)
	task.Class, task.StallMS, task.Spec.Reattachable = spec.Class, ss.toolset.StallFor(spec).Milliseconds(),
		spec.Class.Repeatable()
	j := ss.admission.Judge(ctx, run.owner.Agent, target, run.owner.Calls(tool.Call{
		Session: task.Session, ID: perdure.CallID(task.Run), Tool: task.Tool,
		Args: task.Spec.Arguments, Class: spec.Class,
	}), read)
	run.permissions, run.refusal, task.Spec.Arguments = j.Permissions, j.Refusal, j.Args
	if run.refusal == nil {
		run.refusal = ss.admission.RateLimited(ctx, run.owner.Session, run.owner.Agent, target)
	}
	task.ArgsHash, err = perdure.Fingerprint(task.Tool, j.Args)
	return task, err
}

// Start adds the run to the commit of its fire: it runs, queues, or waits for an approval.
// Limit: there is no slot for it, and nothing was written.
func (ss *Schedules) Start(tx store.Tx, run *Run) error {
	run.Reset()
	if run.refusal != nil {
		return ss.failScheduled(tx, run)
	}
	ss.tasks.Starting.Add(run.Task)
	spawned, claimed, err := ss.records.SpawnIn(tx, taskrecord.Request{Owner: run.owner, Permissions: run.permissions, FromSchedule: true},
		run.task)
	run.claimed, run.started = claimed, spawned.Task
	return err
}

// failScheduled adds a run that has failed.
func (ss *Schedules) failScheduled(tx store.Tx, run *Run) error {
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
	u := ss.tasks.Judge(taskrun.Claimed{Task: task, Row: row, Owner: run.owner}, *run.refusal, dispatch.End{}).Update
	u.Attempt = 1
	_, err := ss.records.Update(tx, task, u)
	return err
}

// AfterCommit is called with the outcome of the commit, and starts the run. If only the answer of
// the commit was lost, the run starts all the same. Started reports whether the run is stored.
func (ss *Schedules) AfterCommit(ctx context.Context, run *Run, failed error) bool {
	starts := run.claimed.Token != "" && (failed == nil || ss.tasks.OwnsClaim(ctx, run.claimed))
	if starts {
		ss.tasks.Run(taskrun.Claimed{Task: run.started, Row: run.claimed, Owner: run.owner}, taskrun.FreshTask)
	} else {
		ss.tasks.Starting.Drop(run.Task)
		ss.core.StartQueued()
	}
	if failed == nil {
		ss.tasks.Evict(ctx, run.owner.Session)
	}
	return starts || failed == nil
}
