package foreground

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// takeOverCall takes over a call whose worker is dead. It finds out what is left of the execution
// and decides what to do with it.
func (cs *Calls) takeOverCall(ctx context.Context, run Request, row perdure.Call) error {
	key := row.Key
	if row.State != perdure.CallRunning {
		return fmt.Errorf("take over call %s: %w: the ledger says %s, the journal says running", key, perdure.Conflict,
			row.State)
	}
	remains, err := cs.remainsAt(ctx, row.Home)
	if err != nil {
		return fmt.Errorf("take over call %s: %w", key, err)
	}
	t, known := cs.toolset.Find(row.Tool) // even if the agent may no longer see the tool: it could when the call started
	found := perdure.OrphanedCall{StopRequested: run.Command.Stop, Class: row.Class, Executions: row.Executions,
		MaxExecutions: cs.core.Limits.MaxExecutions, Remains: remains}
	if known {
		found = cs.environment.Inspect(ctx, found, t, core.ToolCall(row, row.ClaimedAt.Add(cs.toolset.DeadlineFor(t, row.Args))))
	}
	how := found.TakeOver()
	if !known && (how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun) {
		how = perdure.TakeOverGiveUp
	}
	cs.core.Log.Info("call taken over", "call", key, "tool", row.Tool, "class", row.Class, "how", how)
	if remains == perdure.RemainsUnseen && how == perdure.TakeOverStop {
		t = nil // there is nothing here that it could stop
	}
	return cs.recordTakeOver(ctx, run, row, t, how)
}

// remainsAt says whether the remains of a call can be judged here. This worker drives the session,
// so their home has not come back in time: the commit that acquired the session has checked it.
func (cs *Calls) remainsAt(ctx context.Context, home perdure.HomeID) (remains perdure.ExecutionRemains, err error) {
	err = cs.core.Store.View(ctx, func(r store.Reader) error {
		remains = cs.core.RemainsAt(r, home)
		return nil
	})
	if remains == perdure.RemainsElsewhere {
		remains = perdure.RemainsUnseen
	}
	return remains, err
}

// recordTakeOver carries out a decision about a call. Before anything else happens, the row gets a
// fresh token in the commit of the event, so that whatever the dead worker still writes is refused.
func (cs *Calls) recordTakeOver(ctx context.Context, run Request, row perdure.Call, t tool.Tool,
	how perdure.TakeOver) error {
	old := row
	row.Token, row.Worker, row.Epoch = core.NewToken(), taskrun.OwnerAfter(how, old.Worker, cs.core.Worker), run.Row.Epoch
	survivor, survives := t.(tool.Adoptable)
	if how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun {
		row.Executions++
		row.Home = cs.core.HomeOf(t)
		if survives {
			if err := cs.core.Guarded("prepare", func() error {
				return survivor.Prepare(ctx, core.ToolCall(row, time.Time{}))
			}); err != nil {
				cs.core.Log.Error("start ticket not prepared", "call", row.Key, "error", tool.Chain(err))
				how = perdure.TakeOverGiveUp
			}
		}
	}
	cs.unstarted.Store(row.Token, how)
	err := cs.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if _, err := tx.Sessions().Lock(run.Session.ID, row.Epoch); err != nil {
			return err
		}
		events := []perdure.Event{{Session: run.Session.ID, Actor: "runtime", Turn: row.Turn, Call: row.Key.Call,
			Fact: perdure.ToolTakenOver{
				CallID: row.Key.Call, Name: row.Tool, How: how, Executions: row.Executions,
			}}}
		core.Stamp(events, tx.Now())
		if err := tx.Journal().Append(run.Session.ID, events); err != nil {
			return err
		}
		return tx.Calls().TakeOver(old, row)
	})
	if err != nil {
		return fmt.Errorf("take over call %s: %w", row.Key, err)
	}
	cs.unstarted.Delete(row.Token)
	cs.core.ReportTakeOver(core.TakenOver{Session: run.Session.ID, Call: row.Key.Call, Dead: old.Worker,
		Class: row.Class, How: how})
	return cs.continueCall(ctx, run, row, t, how)
}

// continueCall continues a call whose row this worker owns.
func (cs *Calls) continueCall(ctx context.Context, run Request, row perdure.Call, t tool.Tool,
	how perdure.TakeOver) error {
	survivor, _ := t.(tool.Adoptable)
	switch how {
	case perdure.TakeOverRunAgain, perdure.TakeOverFirstRun:
		run.began = time.Now()
		return cs.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
			return cs.environment.Invoke(ctx, t, call, env)
		})
	case perdure.TakeOverAdopt:
		return cs.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
			return survivor.Adopt(ctx, call, env, env.Report())
		})
	case perdure.TakeOverReconcile:
		return cs.reconcile(run, row, t.(tool.Reconciler))
	case perdure.TakeOverStop, perdure.TakeOverTimeout:
		return cs.stopRemains(ctx, run, row, t, how)
	case perdure.TakeOverGiveUp:
		cs.tasks.Abandon(ctx, row.Key, "the call was given up")
		run.Done(cs.settledOutcome(run, row, gaveUpResult(row)))
	default:
		run.Done(cs.settledOutcome(run, row, core.UnknownResult()))
	}
	return nil
}

// reconcile asks the tool whether the call took effect. If it did not, the call runs now, once.
func (cs *Calls) reconcile(run Request, row perdure.Call, t tool.Reconciler) error {
	run.began = time.Now()
	return cs.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
		answer, err := t.Reconcile(ctx, call, env)
		switch {
		case err == nil && answer.Happened:
			return answer.Result
		case err == nil && answer.DidNotHappen:
			return cs.environment.Invoke(ctx, t, call, env)
		case ctx.Err() != nil:
			return tool.Internal(context.Cause(ctx))
		default:
			return core.UnknownResult()
		}
	})
}

// stopRemains stops what a dead execution left running, and settles the call.
func (cs *Calls) stopRemains(ctx context.Context, run Request, row perdure.Call, t tool.Tool,
	how perdure.TakeOver) error {
	if err := cs.environment.StopRemains(ctx, t, core.ToolCall(row, time.Time{}), run.Command.Force); err != nil {
		cs.core.Log.Error("process of a dead execution not stopped", "call", row.Key, "error", tool.Chain(err))
	}
	cause := perdure.CauseInterrupt
	if how == perdure.TakeOverTimeout {
		cause = perdure.CauseDeadline
	}
	cs.tasks.Abandon(ctx, row.Key, string(cause))
	run.Done(cs.settledOutcome(run, row, core.CauseResult(cause, row)))
	return nil
}
