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
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/tool"
)

// taskStart is how a run begins in this process.
type taskStart int

const (
	freshTask   taskStart = iota // RunBackground
	adoptedTask                  // Survivor.Adopt
	foundTask                    // Reattacher.Reattach
	askedTask                    // Reconciler.Reconcile, then perhaps RunBackground
)

// claimedTask is what the commit that made an attempt ours knew, so that nothing has to be read again after it.
type claimedTask struct {
	task   perdure.Task
	row    perdure.Call // in the ledger; without a token there is nothing to run
	owner  *owner       // nil: its session cannot be found
	logged int64        // bytes in its log
}

// taskRun is one attempt of a task in this process. Thousands of them may do nothing but wait: whatever it holds, and
// every large value on the stack above the tool, is paid for by each of them.
type taskRun struct {
	e      *Effects
	task   perdure.Task
	row    perdure.Call
	start  taskStart
	target tool.Tool
	port   taskPort
	sink   taskSink
	dialog dialog
}

// runTask carries one attempt of a task through the dispatcher to its end.
func (e *Effects) runTask(c claimedTask, start taskStart) {
	target, ok := e.tool(c.task.Tool)
	if !ok || c.owner == nil {
		e.starting.drop(c.task.ID)
		e.cfg.Log.Error("a task cannot be started", "task", c.task.ID, "tool", c.task.Tool, "session", c.task.Session)
		e.group.Go(func() {
			e.endTask(context.Background(), c.task, c.row, e.judgeTask(c.task, c.row, tool.Internal(perdure.NotFound), dispatch.End{}))
		})
		return
	}
	if c.task.Trace != c.owner.trace { // what it starts is in the same trace
		traced := *c.owner
		traced.trace, c.owner = c.task.Trace, &traced
	}
	run := &taskRun{e: e, task: c.task, row: c.row, start: start, target: target}
	run.port = taskPort{e: e, owner: c.owner, at: c.owner.created, turn: c.row.Turn, call: c.row.Key.Call, read: true}
	run.dialog.e, run.dialog.run = e, run
	run.sink.init(e, &run.task, c.logged)
	work := dispatch.Work{
		ID: string(c.task.ID), Session: c.task.Session, Turn: c.task.Turn, Lane: perdure.Background, Deadline: c.task.DeadlineAt,
		Stall: target.Spec().Stall, Beside: c.task.Beside(), Run: run.carry, End: run.end, Gone: e.cfg.Freed,
	}
	if _, ok := target.(tool.Killer); ok {
		work.Kill = run.kill
	}
	if e.cfg.Shared {
		e.tasks.Store(c.task.ID, run)
		work.Gone = func() {
			e.tasks.CompareAndDelete(run.task.ID, run)
			e.cfg.Freed()
		}
	}
	e.launch(e.cfg.Telemetry.Work(work, telemetry.Execution{Call: run.row, Task: run.task, Arguments: run.row.Args}))
}

// launch starts a task's work. Work of an earlier attempt that has not returned yet is waited for. A cancel
// that was asked for before the work could be cancelled reaches it now.
func (e *Effects) launch(work dispatch.Work) {
	if !e.cfg.Holds() { // it is another's to run by now (TK8)
		e.started(work.ID, fmt.Errorf("%w: the lease has passed", perdure.Lost))
		return
	}
	err := e.cfg.Runner.Start(work)
	if errors.Is(err, perdure.Conflict) {
		e.group.Go(func() {
			defer e.starting.drop(perdure.TaskID(work.ID))
			for errors.Is(err, perdure.Conflict) {
				select {
				case <-time.After(sinkFlush):
					err = e.cfg.Runner.Start(work)
				case <-e.cfg.Runner.Done():
					return
				}
			}
			e.started(work.ID, err)
		})
		return
	}
	e.started(work.ID, err)
}

// started passes on the cancel that came before the work could be cancelled.
func (e *Effects) started(id string, err error) {
	canceled := e.starting.drop(perdure.TaskID(id))
	if err != nil {
		e.cfg.Log.Warn("a task is left for the next start", "task", id, "error", err)
		return
	}
	if canceled {
		e.cfg.Runner.Cancel(id, perdure.CauseCanceled)
	}
}

// carry is the work. It runs in the goroutine that the tool waits in, so no large value stands in its frame but what the
// tool is given.
func (r *taskRun) carry(ctx context.Context) tool.Result {
	defer r.sink.close()
	env, own := r.env()
	env.Trace = r.port.owner.traceparent(ctx)
	return r.e.veiled(ctx, r.target, hidden{r.row.Args, own}, *env, func(env tool.Env) tool.Result {
		if r.start != freshTask {
			if result, done := r.resume(ctx, env); done {
				return result
			}
		}
		if r.task.FromCall() {
			return enter(ctx, r.target, env.Call, env)
		}
		background, ok := r.target.(tool.Background)
		if !ok {
			return noExecutor(r.task.Tool)
		}
		if gone := veil.Gone(r.target.Spec().Parameters, env.Call.Args); gone != nil {
			return *gone
		}
		return background.RunBackground(ctx, env.Call, env, env.Report())
	})
}

func noExecutor(name string) tool.Result {
	return tool.Failf("Tool declared background support but has no background executor: %s", name)
}

// resume goes on with what an attempt before left. Not done: the tool is to be run.
func (r *taskRun) resume(ctx context.Context, env tool.Env) (result tool.Result, done bool) {
	if _, ok := r.target.(tool.Background); !ok && !r.task.FromCall() {
		return noExecutor(r.task.Tool), true
	}
	switch r.start {
	case adoptedTask:
		return r.target.(tool.Survivor).Adopt(ctx, env.Call, env, env.Report()), true
	case foundTask:
		result, gone := r.target.(tool.Reattacher).Reattach(ctx, r.task, env, env.Report())
		if gone && !r.row.Class.Repeatable() {
			return unknownResult(), true
		}
		if gone && r.task.Kind == perdure.KindExternalAgent {
			return refusedTakeOver(r.task, remoteUnknown), true
		}
		return result, !gone
	case askedTask:
		said, err := r.target.(tool.Reconciler).Reconcile(ctx, env.Call, env)
		if err == nil && said.Happened {
			return said.Result, true
		}
		if err != nil || !said.DidNotHappen {
			return unknownResult(), true
		}
	}
	return result, false
}

func (r *taskRun) call() tool.Call { return toolCall(r.row, r.task.DeadlineAt) }

// env is what the tool may reach, and the secret arguments of its call.
func (r *taskRun) env() (*tool.Env, *redact.Set) {
	call := r.call()
	var own *redact.Set
	call.Args, own = r.e.vault.Fill(r.row.Key, r.target.Spec().Parameters, call.Args)
	env := r.e.envOf(&r.port, call, &r.sink)
	env.LogBytes = r.sink.logged
	if r.start == adoptedTask && env.Known != nil && env.Known.Any() {
		env.LogBytes = 0 // what is masked is not as long as what was said: it is said again, and no secret is cut in half
	}
	env.Dialog, env.Remote = &r.dialog, remote{e: r.e, run: r}
	return &env, own
}

// end is told by the dispatcher how the work ended.
func (r *taskRun) end(end dispatch.End) {
	if leftAsItIs(end) || end.Cause == perdure.CauseSuperseded || r.e.endsByChild(r.task) {
		return // for the next start (RC11), another's (TK6), or a subagent's to end (SA9)
	}
	v := r.e.judgeTask(r.task, r.row, end.Result, end)
	v.silent = !end.DidNotStop && r.sink.silent()
	r.e.endTask(context.Background(), r.task, r.row, v)
}

// kill leaves alone what may be another worker's by now: it has the same key.
func (r *taskRun) kill(force bool) {
	if r.e.cfg.Holds() {
		r.target.(tool.Killer).Kill(r.call(), force)
	}
}

// startingTasks remembers the tasks that a commit of this process is starting and whose work cannot be cancelled yet, so
// that a cancel in between is not missed (LN15). The zero value is empty. It is safe for concurrent use.
type startingTasks struct {
	mu       sync.Mutex
	canceled map[perdure.TaskID]bool // guarded by mu
}

// add is called before the commit. Adding again forgets a cancel.
func (s *startingTasks) add(id perdure.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.canceled == nil {
		s.canceled = map[perdure.TaskID]bool{}
	}
	s.canceled[id] = false
}

// cancel notes a cancel that found no work.
func (s *startingTasks) cancel(id perdure.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.canceled[id]; ok {
		s.canceled[id] = true
	}
}

// has reports whether the task is being started.
func (s *startingTasks) has(id perdure.TaskID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.canceled[id]
	return ok
}

// drop forgets the task and says whether a cancel came. Dropping one that is not there does nothing.
func (s *startingTasks) drop(id perdure.TaskID) (canceled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	canceled = s.canceled[id]
	delete(s.canceled, id)
	return canceled
}
