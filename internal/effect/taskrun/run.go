package taskrun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/tool"
)

// Start is how a run starts in this process.
type Start int

const (
	FreshTask      Start = iota // RunBackground
	adoptedTask                 // Adoptable.Adopt
	reattachedTask              // Reattacher.Reattach
	reconciledTask              // Reconciler.Reconcile, then RunBackground if the effect did not happen
)

// Claimed holds what the commit that acquired an attempt read, so that nothing has to be read
// again after it.
type Claimed struct {
	Task     perdure.Task
	Row      perdure.Call // ledger row; without a token there is nothing to run
	Owner    *core.Owner  // nil: its session cannot be found
	logBytes int64        // length of its log in bytes
	// remains says whether what an earlier attempt left can be judged here. It is only set for a
	// take-over.
	remains perdure.ExecutionRemains
	grant   core.Grant     // under which it is taken over
	filesAt perdure.HomeID // likewise: the other home at which the files of its session are; empty: none
}

// taskRun is one attempt of a task in this process. Thousands of them may be waiting, and each pays
// for every field here and for every large value on the stack above the tool.
type taskRun struct {
	tasks  *Tasks
	task   perdure.Task
	row    perdure.Call
	start  Start
	target tool.Tool
	caller environment.Caller
	sink   Sink
	dialog Dialog
}

// run is the work. It runs in the goroutine in which the tool waits, so its frame holds no large
// value but the environment of the tool.
func (r *taskRun) run(ctx context.Context) tool.Result {
	defer r.sink.Close()
	env, own := r.env()
	env.Trace = r.caller.Owner.Traceparent(ctx)
	return r.tasks.environment.RunMasked(ctx, r.target, environment.MaskedArgs{Recorded: r.row.Args, Own: own, Rules: r.caller.Owner.Agent.Permissions}, *env, func(env tool.Env) tool.Result {
		if r.start != FreshTask {
			if result, done := r.resume(ctx, env); done {
				return result
			}
		}
		if r.task.FromCall() {
			return r.tasks.environment.Invoke(ctx, r.target, env.Call, env)
		}
		background, ok := r.target.(tool.Background)
		if !ok {
			return noExecutor(r.task.Tool)
		}
		return r.tasks.environment.InvokeBackground(ctx, background, env.Call, env)
	})
}

// resume continues what an earlier attempt left. Not done: the tool must be run.
func (r *taskRun) resume(ctx context.Context, env tool.Env) (result tool.Result, done bool) {
	if _, ok := r.target.(tool.Background); !ok && !r.task.FromCall() {
		return noExecutor(r.task.Tool), true
	}
	switch r.start {
	case adoptedTask:
		return r.target.(tool.Adoptable).Adopt(ctx, env.Call, env, env.Report()), true
	case reattachedTask:
		result, gone := r.target.(tool.Reattacher).Reattach(ctx, r.task, env, env.Report())
		if gone && !r.row.Class.Repeatable() {
			return core.UnknownResult(), true
		}
		if gone && r.task.Kind == perdure.KindExternalAgent {
			return refusedTakeOver(r.task, remoteUnknown), true
		}
		return result, !gone
	case reconciledTask:
		answer, err := r.target.(tool.Reconciler).Reconcile(ctx, env.Call, env)
		if err == nil && answer.Happened {
			return answer.Result, true
		}
		if err != nil || !answer.DidNotHappen {
			return core.UnknownResult(), true
		}
	}
	return result, false
}

// AskingTask implements Asker.
func (r *taskRun) AskingTask() (perdure.Task, error) { return r.task, nil }

// Link implements tool.Remote: it names the remote task that does the work.
func (r *taskRun) Link(ctx context.Context, id string) error {
	return r.tasks.LinkRemote(ctx, r.task, id)
}

func (r *taskRun) call() tool.Call { return core.ToolCall(r.row, r.task.DeadlineAt) }

// env returns what the tool may reach, and the secret arguments of its call.
func (r *taskRun) env() (*tool.Env, *redact.Set) {
	call := r.call()
	var own *redact.Set
	call.Args, own = r.tasks.secrets.Vault.Fill(r.row.Key, r.target.Spec().Parameters, call.Args)
	env := r.tasks.environment.Env(&r.caller, call, &r.sink)
	env.LogBytes = r.sink.logged
	if r.start == adoptedTask && env.SecretMasker != nil && env.SecretMasker.Any() {
		// Masked output has another length than the original, so offsets into the log do not match.
		// The process repeats its output from the start, so that no secret is cut in half.
		env.LogBytes = 0
	}
	env.Dialog, env.Remote = &r.dialog, r
	return &env, own
}

// end is called by the runner when the work has ended.
func (r *taskRun) end(end dispatch.End) {
	if core.LeftForRestart(end) || end.Cause == perdure.CauseSuperseded || r.tasks.EndsWithChild(r.task) {
		return // left for the next start, owned by another worker, or ended by the subagent's own session
	}
	v := r.tasks.Judge(Claimed{Task: r.task, Row: r.row, Owner: r.caller.Owner}, end.Result, end)
	v.noOutput = !end.DidNotStop && r.sink.noOutput()
	r.tasks.End(context.Background(), r.task, r.row, v)
}

// kill does nothing once another worker may own the task: its process has the same key.
func (r *taskRun) kill(force bool) {
	if r.tasks.core.LeaseHeld() {
		r.target.(tool.Killer).Kill(r.call(), force)
	}
}

// force ends the work without a grace period, under the same condition.
func (r *taskRun) force() { r.tasks.environment.ForceOf(r.target, r.call())() }

// Run hands one attempt of a task to the runner, which carries it to its end.
func (ts *Tasks) Run(c Claimed, start Start) {
	target, ok := ts.toolset.Find(c.Task.Tool)
	if !ok || c.Owner == nil {
		ts.Starting.Drop(c.Task.ID)
		ts.core.Log.Error("task not startable", "task", c.Task.ID, "tool", c.Task.Tool, "session", c.Task.Session)
		ts.core.Group.Go(func() {
			ts.End(context.Background(), c.Task, c.Row,
				ts.Judge(c, tool.Internal(perdure.NotFound), dispatch.End{}))
		})
		return
	}
	if c.Task.Trace != c.Owner.Trace || len(c.Task.Metadata) > 0 {
		own := *c.Owner // what the task starts belongs to the same trace and request
		own.Trace, own.Request, c.Owner = c.Task.Trace, c.Task.Metadata, &own
	}
	run := &taskRun{tasks: ts, task: c.Task, row: c.Row, start: start, target: target}
	run.caller = environment.Caller{Owner: c.Owner, At: c.Owner.Created, Turn: c.Row.Turn, Call: c.Row.Key.Call,
		Token: c.Row.Token, Read: true}
	run.dialog.tasks, run.dialog.by = ts, run
	run.sink.init(ts, &run.task, c.logBytes)
	work := dispatch.Work{
		ID: string(c.Task.ID), Session: c.Task.Session, Turn: c.Task.Turn,
		Lane: perdure.Background, Deadline: c.Task.DeadlineAt,
		Stall: ts.toolset.StallFor(target.Spec()), OutsideSessionSlots: c.Task.OutsideSessionSlots(), Run: run.run, End: run.end, SlotReleased: ts.core.StartQueued,
	}
	if _, ok := target.(tool.Killer); ok {
		work.Kill = run.kill
	}
	if _, ok := target.(tool.Forcer); ok {
		work.Force = run.force
	}
	if ts.core.Shared {
		ts.running.Store(c.Task.ID, run)
		work.SlotReleased = func() {
			ts.running.CompareAndDelete(run.task.ID, run)
			ts.core.StartQueued()
		}
	}
	ts.launch(ts.core.Telemetry.Work(work, telemetry.Execution{Call: run.row, Task: run.task, Arguments: run.row.Args}))
}

// launch starts a task's work. It waits for work of an earlier attempt that has not returned yet. A
// cancel that was requested before the work could be canceled is passed on now.
func (ts *Tasks) launch(work dispatch.Work) {
	if !ts.core.LeaseHeld() { // another worker may run it by now
		ts.afterStart(work.ID, fmt.Errorf("%w: the lease has expired", perdure.Lost))
		return
	}
	err := ts.core.Runner.Start(work)
	if errors.Is(err, perdure.Conflict) {
		ts.core.Group.Go(func() {
			defer ts.Starting.Drop(perdure.TaskID(work.ID))
			for errors.Is(err, perdure.Conflict) {
				select {
				case <-time.After(sinkFlush):
					err = ts.core.Runner.Start(work)
				case <-ts.core.Runner.Done():
					return
				}
			}
			ts.afterStart(work.ID, err)
		})
		return
	}
	ts.afterStart(work.ID, err)
}

// afterStart passes on a cancel that came before the work could be canceled.
func (ts *Tasks) afterStart(id string, err error) {
	stop := ts.Starting.take(perdure.TaskID(id))
	if err != nil {
		ts.core.Log.Warn("task left for the next start", "task", id, "error", err)
		return
	}
	switch stop {
	case stopWithGrace:
		ts.core.Runner.Cancel(id, perdure.CauseCanceled)
	case stopAtOnce:
		ts.core.Runner.Force(id, perdure.CauseCanceled)
	}
}

func noExecutor(name string) tool.Result {
	return tool.Failf("Tool declared background support but has no background executor: %s", name)
}

// StartingTasks holds the tasks that a commit of this process is starting and whose work cannot be
// canceled yet, so that a cancel in between is not missed. The zero value is empty. Safe for
// concurrent use.
type StartingTasks struct {
	mu       sync.Mutex
	canceled map[perdure.TaskID]startingStop // guarded by mu
}

// startingStop is how a task that is being started has to stop.
type startingStop int

const (
	notStopped startingStop = iota
	stopWithGrace
	stopAtOnce
)

// Add is called before the commit. Adding a task again clears its cancel.
func (s *StartingTasks) Add(id perdure.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.canceled == nil {
		s.canceled = map[perdure.TaskID]startingStop{}
	}
	s.canceled[id] = notStopped
}

// cancel records a cancel that found no work.
func (s *StartingTasks) cancel(task perdure.Task) {
	stop := stopWithGrace
	if task.ForceRequested() {
		stop = stopAtOnce
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.canceled[task.ID]; ok {
		s.canceled[task.ID] = stop
	}
}

// has reports whether the task is being started.
func (s *StartingTasks) has(id perdure.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.canceled[id]
	return ok
}

// Drop removes the task and reports whether a cancel came. Dropping an unknown task does nothing.
func (s *StartingTasks) Drop(id perdure.TaskID) (canceled bool) { return s.take(id) != notStopped }

// take is Drop that also says how the task has to stop.
func (s *StartingTasks) take(id perdure.TaskID) startingStop {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := s.canceled[id]
	delete(s.canceled, id)
	return stop
}
