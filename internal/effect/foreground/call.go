package foreground

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Request asks to run a foreground call.
type Request struct {
	Session *perdure.Session // as of the commit that claimed it
	Row     *store.Session   // the session as its driver holds it
	Claimed *perdure.Call    // the ledger row, from the commit that claimed the call; nil: it is read
	Command perdure.RunCall
	Done    func(core.Outcome) // called once, from another goroutine; not called if the engine shuts down

	// Inherited says that the driver has not started the call, and that the call does not run in
	// this process: what this process began of it was given up, with its outcome.
	Inherited bool

	// began is when an execution after a crash started; time in which nothing ran does not count.
	// Zero: the call counts from its claim.
	began time.Time
}

// Start runs a claimed call, or takes it over, and reports its outcome through run.Done.
//
// A call whose claim this process committed and has not started yet is run. A call that runs in
// this process already needs nothing. Any other running call was claimed by a worker that is dead,
// since the driver holds the session, or was given up by a former driver of this process: Start
// takes it over.
func (cs *Calls) Start(ctx context.Context, run Request) error {
	row, err := cs.rowOf(ctx, run)
	if err != nil {
		return fmt.Errorf("start call %s: %w", run.Command.Call.ID, err)
	}
	t, ok := cs.toolset.Lookup(run.Session.Agent, core.HasDetachedWork(run.Session), row.Tool)
	how, ours := cs.unstarted.LoadAndDelete(row.Token)
	switch {
	case ours && how != perdure.TakeOver(""):
		return cs.continueCall(ctx, run, row, t, how.(perdure.TakeOver))
	case !ours && row.Worker == cs.core.Worker && !run.Inherited:
		return nil // this process runs it and will report its end
	case !ours || run.Command.Stop:
		return cs.takeOverCall(ctx, run, row)
	}
	if !ok {
		run.Done(cs.settledOutcome(run, row, tool.Error("Tool definition not found: "+row.Tool)))
		return nil
	}
	if run.Command.Call.Approval != "" { // it waited for an approval, so the rate limit applies only now
		if held := cs.admission.RateLimited(ctx, run.Session.ID, run.Session.Agent, t); held != nil {
			run.Done(cs.settledOutcome(run, row, *held))
			return nil
		}
	}
	return cs.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
		return cs.environment.Invoke(ctx, t, call, env)
	})
}

// rowOf returns the call's row in the ledger: from the commit that claimed it, or from the store.
func (cs *Calls) rowOf(ctx context.Context, run Request) (row perdure.Call, err error) {
	if run.Claimed != nil {
		return *run.Claimed, nil
	}
	err = cs.core.Store.View(ctx, func(r store.Reader) error {
		row, err = r.Calls().Get(perdure.CallKey{Session: run.Session.ID, Call: run.Command.Call.ID})
		return err
	})
	return row, err
}

// callerOf is a foreground call as a caller of other work.
func callerOf(s *perdure.Session, o *core.Owner, call tool.Call, token perdure.Token) *environment.Caller {
	return &environment.Caller{Owner: o, At: core.CallTime(s, call.ID), Turn: call.Turn, Call: call.ID, Token: token,
		Repeats: s.RepeatOf(call.ID), Read: s.ReadUntrusted(), ByModel: true}
}

// NoteClaim notes a claim that this process committed, or may have committed, and has not started
// yet.
func (cs *Calls) NoteClaim(token perdure.Token) { cs.unstarted.Store(token, perdure.TakeOver("")) }

// execute hands one execution to the runner. It ends with the settlement of a call, or of a task if
// the call leaves its turn.
func (cs *Calls) execute(run Request, row perdure.Call, t tool.Tool,
	how func(context.Context, tool.Call, tool.Env) tool.Result) error {
	spec := t.Spec()
	began := run.began
	if began.IsZero() {
		began = row.ClaimedAt
	}
	c := &callRun{calls: cs, run: run, row: row, call: core.ToolCall(row, began.Add(cs.toolset.DeadlineFor(t, row.Args))),
		owner: core.OwnerOf(run.Session).Of(*run.Row), name: spec.DisplayName}
	c.at = core.CallTime(run.Session, row.Key.Call)
	c.call.Args, c.secretArgs = cs.secrets.Vault.Fill(row.Key, spec.Parameters, row.Args)
	c.sink = callSink{calls: cs, work: row.Key.String(), call: c.call, buffering: true}
	env := cs.environment.Env(callerOf(run.Session, c.owner, c.call, row.Token), c.call, &c.sink)
	env.Dialog, env.Remote = cs.tasks.NewDialog(c), c
	work := dispatch.Work{
		ID: row.Key.String(), Session: row.Key.Session, Turn: row.Turn,
		Lane: perdure.Foreground, Deadline: c.call.Deadline,
		SoftBudget: run.Command.Call.SoftBudget, Stall: cs.toolset.StallFor(spec), Detach: c.detach,
		Run: func(ctx context.Context) tool.Result {
			env := env
			env.Trace = c.owner.Traceparent(ctx)
			return cs.environment.RunMasked(ctx, t, environment.MaskedArgs{Recorded: row.Args, Own: c.secretArgs, Rules: c.owner.Agent.Permissions}, env, func(env tool.Env) tool.Result {
				return how(ctx, env.Call, env)
			})
		},
		End: c.end, SlotReleased: c.returned,
	}
	if killer, ok := t.(tool.Killer); ok {
		work.Kill = func(force bool) {
			if cs.core.LeaseHeld() { // otherwise the process may belong to another worker, under the same idempotency key
				killer.Kill(c.call, force)
			}
		}
	}
	if _, ok := t.(tool.Forcer); ok {
		work.Force = cs.environment.ForceOf(t, c.call)
	}
	if run.Session.Agent.DryRun { // a dry run leaves nothing behind and asks nobody
		work.Detach = nil
	}
	if !cs.core.LeaseHeld() { // another worker may run it by now
		return fmt.Errorf("start call %s: %w: the lease has expired", row.Key, perdure.Lost)
	}
	cs.running.Store(row.Key, c)
	work = cs.core.Telemetry.Work(work, telemetry.Execution{Call: row, Turn: run.Session.Turn, Owner: run.Session,
		Arguments: row.Args})
	if err := cs.core.Runner.Start(work); err != nil {
		cs.running.CompareAndDelete(row.Key, c)
		return err
	}
	return nil
}

// resultOf turns the end of an execution into the call's result. A real result that arrived before
// the fence is kept, even if the work was asked to stop in the meantime.
func (cs *Calls) resultOf(row perdure.Call, end dispatch.End) tool.Result {
	if end.DidNotStop {
		return core.CauseResult(end.Cause, row)
	}
	if end.Cause != "" && !end.Result.IsSuccess() && dispatch.OnlyReportsCause(end.Result) {
		return core.CauseResult(end.Cause, row)
	}
	return end.Result
}
