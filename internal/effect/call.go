package effect

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// CallRun is a foreground call that a driver runs.
type CallRun struct {
	Session *perdure.Session // as of the commit that claimed it
	Drive   *Drive
	Command perdure.RunCall
	Done    func(core.Outcome) // called once, from another goroutine; not called if the engine shuts down
}

// StartCall runs a claimed call, or takes it over, and reports its outcome through run.Done.
func (e *Effects) StartCall(ctx context.Context, run CallRun) error {
	held, id := run.Drive.row, run.Command.Call.ID
	request := callRequest{Session: run.Session, Row: &held, Command: run.Command, Done: run.Done}
	if row, ok := run.Drive.claimed[id]; ok {
		delete(run.Drive.claimed, id)
		request.Claimed = &row
	}
	return e.startCall(ctx, request)
}

// callRequest asks to run a foreground call.
type callRequest struct {
	Session *perdure.Session // as of the commit that claimed it
	Row     *store.Session   // the session as its driver holds it
	Claimed *perdure.Call    // the ledger row, from the commit that claimed the call; nil: it is read
	Command perdure.RunCall
	Done    func(core.Outcome) // called once, from another goroutine; not called if the engine shuts down

	// began is when an execution after a crash started; time in which nothing ran does not count.
	// Zero: the call counts from its claim.
	began time.Time
}

// startCall runs a claimed call, or takes it over, and reports its outcome through run.Done.
//
// A call whose claim this process committed and has not started yet is run. A call that runs in
// this process already needs nothing. Any other running call was claimed by a worker that is dead,
// since the driver holds the session: StartCall takes it over.
func (e *Effects) startCall(ctx context.Context, run callRequest) error {
	row, err := e.rowOf(ctx, run)
	if err != nil {
		return fmt.Errorf("start call %s: %w", run.Command.Call.ID, err)
	}
	t, ok := e.toolset.Lookup(run.Session.Agent, core.HasDetachedWork(run.Session), row.Tool)
	how, ours := e.unstarted.LoadAndDelete(row.Token)
	switch {
	case ours && how != perdure.TakeOver(""):
		return e.continueCall(ctx, run, row, t, how.(perdure.TakeOver))
	case !ours && row.Worker == e.core.Worker:
		return nil // this process runs it and will report its end
	case !ours || run.Command.Stop:
		return e.takeOverCall(ctx, run, row)
	}
	if !ok {
		run.Done(e.settledOutcome(run, row, tool.Error("Tool definition not found: "+row.Tool)))
		return nil
	}
	if run.Command.Call.Approval != "" { // it waited for an approval, so the rate limit applies only now
		if held := e.admission.RateLimited(ctx, run.Session.ID, run.Session.Agent, t); held != nil {
			run.Done(e.settledOutcome(run, row, *held))
			return nil
		}
	}
	return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
		return environment.Invoke(ctx, t, call, env)
	})
}

// rowOf returns the call's row in the ledger: from the commit that claimed it, or from the store.
func (e *Effects) rowOf(ctx context.Context, run callRequest) (row perdure.Call, err error) {
	if run.Claimed != nil {
		return *run.Claimed, nil
	}
	err = e.core.Store.View(ctx, func(r store.Reader) error {
		row, err = r.Calls().Get(perdure.CallKey{Session: run.Session.ID, Call: run.Command.Call.ID})
		return err
	})
	return row, err
}

// callerOf is a foreground call as a caller of other work.
func callerOf(s *perdure.Session, o *core.Owner, call tool.Call) *environment.Caller {
	return &environment.Caller{Owner: o, At: core.CallTime(s, call.ID), Turn: call.Turn, Call: call.ID,
		Repeats: s.RepeatOf(call.ID), Read: s.ReadUntrusted(), ByModel: true}
}

// noteClaim notes a claim that this process committed, or may have committed, and has not started
// yet.
func (e *Effects) noteClaim(token perdure.Token) { e.unstarted.Store(token, perdure.TakeOver("")) }

// execute hands one execution to the runner. It ends with the settlement of a call, or of a task if
// the call leaves its turn.
func (e *Effects) execute(run callRequest, row perdure.Call, t tool.Tool,
	how func(context.Context, tool.Call, tool.Env) tool.Result) error {
	spec := t.Spec()
	began := run.began
	if began.IsZero() {
		began = row.ClaimedAt
	}
	c := &callRun{e: e, run: run, row: row, call: core.ToolCall(row, began.Add(tool.DeadlineOf(t, row.Args))),
		owner: core.OwnerOf(run.Session).Of(*run.Row), name: spec.DisplayName}
	c.at = core.CallTime(run.Session, row.Key.Call)
	c.call.Args, c.secretArgs = e.secrets.Vault.Fill(row.Key, spec.Parameters, row.Args)
	c.sink = callSink{e: e, work: row.Key.String(), call: c.call, buffering: true}
	env := e.environment.Env(callerOf(run.Session, c.owner, c.call), c.call, &c.sink)
	env.Dialog, env.Remote = e.tasks.NewDialog(c), c
	work := dispatch.Work{
		ID: row.Key.String(), Session: row.Key.Session, Turn: row.Turn,
		Lane: perdure.Foreground, Deadline: c.call.Deadline,
		SoftBudget: run.Command.Call.SoftBudget, Stall: spec.Stall, Detach: c.detach,
		Run: func(ctx context.Context) tool.Result {
			env := env
			env.Trace = c.owner.Traceparent(ctx)
			return e.environment.RunMasked(ctx, t, environment.MaskedArgs{Recorded: row.Args, Own: c.secretArgs}, env, func(env tool.Env) tool.Result {
				return how(ctx, env.Call, env)
			})
		},
		End: c.end, SlotReleased: c.returned,
	}
	if killer, ok := t.(tool.Killer); ok {
		work.Kill = func(force bool) {
			if e.core.LeaseHeld() { // otherwise the process may belong to another worker, under the same idempotency key
				killer.Kill(c.call, force)
			}
		}
	}
	if run.Session.Agent.DryRun { // a dry run leaves nothing behind and asks nobody
		work.Detach = nil
	}
	if !e.core.LeaseHeld() { // another worker may run it by now
		return fmt.Errorf("start call %s: %w: the lease has expired", row.Key, perdure.Lost)
	}
	e.calls.Store(row.Key, c)
	work = e.core.Telemetry.Work(work, telemetry.Execution{Call: row, Turn: run.Session.Turn, Owner: run.Session,
		Arguments: row.Args})
	if err := e.core.Runner.Start(work); err != nil {
		e.calls.CompareAndDelete(row.Key, c)
		return err
	}
	return nil
}

// resultOf turns the end of an execution into the call's result. A real result that arrived before
// the fence is kept, even if the work was asked to stop in the meantime.
func (e *Effects) resultOf(row perdure.Call, end dispatch.End) tool.Result {
	if end.DidNotStop {
		return core.CauseResult(end.Cause, row)
	}
	if end.Cause != "" && !end.Result.IsSuccess() && dispatch.OnlyReportsCause(end.Result) {
		return core.CauseResult(end.Cause, row)
	}
	return end.Result
}

// settledOutcome returns the outcome that ends a call. Its settlement and tool.completed are one
// commit.
func (e *Effects) settledOutcome(run callRequest, row perdure.Call, r tool.Result) core.Outcome {
	e.secrets.Vault.Drop(row.Key)
	r, _ = e.core.Gate().After(context.Background(), core.ToolCall(row, time.Time{}), r)
	record := e.record(row, r)
	state := perdure.CallSettled
	fact := perdure.ToolCompleted{
		CallID: row.Key.Call, Name: row.Tool, Status: record.Status(),
		Result: record, DurationMS: core.Elapsed(row.ClaimedAt, time.Now()).Milliseconds(),
	}
	events := []perdure.Event{{Session: row.Key.Session, Actor: "runtime", Turn: run.Command.Turn, Call: row.Key.Call,
		Fact: fact}}
	if record.ConnectionRequired != "" && run.Session.Agent.ClientConnections {
		// the turn waits for the client to connect
		events[0].Fact = perdure.ToolCallRequested{CallID: row.Key.Call, Name: row.Tool, Args: row.Args,
			Connection: record.ConnectionRequired}
		waiting := events[0]
		waiting.Fact = perdure.SessionAwaits{TurnID: run.Command.Turn, CallIDs: []perdure.CallID{row.Key.Call}}
		events = append(events, waiting)
	}
	if record.ErrorKind == perdure.ErrorUnknown {
		state = perdure.CallUnknown
		unknown := events[0]
		unknown.Fact = perdure.ToolUnknown{CallID: row.Key.Call, Name: row.Tool, Since: row.ClaimedAt,
			IdempotencyKey: row.Key.IdempotencyKey()}
		events = append(events, unknown)
	}
	return core.Outcome{
		Events: events,
		Settle: &core.Settlement{Key: row.Key, Token: row.Token, State: state, Result: record},
	}
}

// record is fullRecord, truncated to what a model reads.
func (e *Effects) record(row perdure.Call, r tool.Result) perdure.ToolResult {
	key := row.Key
	return e.environment.TruncateResult(key, e.environment.FullRecord(row, r), func(r store.Reader) error {
		now, err := r.Calls().Get(key)
		if err == nil && now.Token != row.Token {
			err = fmt.Errorf("call %s: %w: another worker owns it", key, perdure.Lost)
		}
		return err
	})
}

// takeOverCall takes over a call whose worker is dead. It finds out what is left of the execution
// and decides what to do with it.
func (e *Effects) takeOverCall(ctx context.Context, run callRequest, row perdure.Call) error {
	key := row.Key
	if row.State != perdure.CallRunning {
		return fmt.Errorf("take over call %s: %w: the ledger says %s, the journal says running", key, perdure.Conflict,
			row.State)
	}
	t, known := e.toolset.Find(row.Tool) // even if the agent may no longer see the tool: it could when the call started
	found := perdure.OrphanedCall{StopRequested: run.Command.Stop, Class: row.Class, Executions: row.Executions,
		MaxExecutions: e.core.MaxExecutions}
	if known {
		found = e.environment.Inspect(ctx, found, t, core.ToolCall(row, row.ClaimedAt.Add(tool.DeadlineOf(t, row.Args))))
	}
	how := found.TakeOver()
	if !known && (how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun) {
		how = perdure.TakeOverGiveUp
	}
	e.core.Log.Info("call taken over", "call", key, "tool", row.Tool, "class", row.Class, "how", how)
	return e.recordTakeOver(ctx, run, row, t, how)
}

// recordTakeOver carries out a decision about a call. Before anything else happens, the row gets a
// fresh token in the commit of the event, so that whatever the dead worker still writes is refused.
func (e *Effects) recordTakeOver(ctx context.Context, run callRequest, row perdure.Call, t tool.Tool,
	how perdure.TakeOver) error {
	old := row
	row.Token, row.Worker, row.Epoch = core.NewToken(), taskrun.OwnerAfter(how, old.Worker, e.core.Worker), run.Row.Epoch
	survivor, survives := t.(tool.Adoptable)
	if how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun {
		row.Executions++
		if survives {
			if err := e.core.Guarded("prepare", func() error {
				return survivor.Prepare(ctx, core.ToolCall(row, time.Time{}))
			}); err != nil {
				e.core.Log.Error("start ticket not prepared", "call", row.Key, "error", tool.Chain(err))
				how = perdure.TakeOverGiveUp
			}
		}
	}
	e.unstarted.Store(row.Token, how)
	err := e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
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
	e.unstarted.Delete(row.Token)
	return e.continueCall(ctx, run, row, t, how)
}

// continueCall continues a call whose row this worker owns.
func (e *Effects) continueCall(ctx context.Context, run callRequest, row perdure.Call, t tool.Tool,
	how perdure.TakeOver) error {
	survivor, _ := t.(tool.Adoptable)
	switch how {
	case perdure.TakeOverRunAgain, perdure.TakeOverFirstRun:
		run.began = time.Now()
		return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
			return environment.Invoke(ctx, t, call, env)
		})
	case perdure.TakeOverAdopt:
		return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
			return survivor.Adopt(ctx, call, env, env.Report())
		})
	case perdure.TakeOverReconcile:
		return e.reconcile(run, row, t.(tool.Reconciler))
	case perdure.TakeOverStop, perdure.TakeOverTimeout:
		return e.stopRemains(ctx, run, row, t, how)
	case perdure.TakeOverGiveUp:
		e.tasks.Abandon(ctx, row.Key, "the call was given up")
		run.Done(e.settledOutcome(run, row, gaveUpResult(row)))
	default:
		run.Done(e.settledOutcome(run, row, core.UnknownResult()))
	}
	return nil
}

// reconcile asks the tool whether the call took effect. If it did not, the call runs now, once.
func (e *Effects) reconcile(run callRequest, row perdure.Call, t tool.Reconciler) error {
	run.began = time.Now()
	return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
		answer, err := t.Reconcile(ctx, call, env)
		switch {
		case err == nil && answer.Happened:
			return answer.Result
		case err == nil && answer.DidNotHappen:
			return environment.Invoke(ctx, t, call, env)
		case ctx.Err() != nil:
			return tool.Internal(context.Cause(ctx))
		default:
			return core.UnknownResult()
		}
	})
}

// stopRemains stops what a dead execution left running, and settles the call.
func (e *Effects) stopRemains(ctx context.Context, run callRequest, row perdure.Call, t tool.Tool,
	how perdure.TakeOver) error {
	if survivor, ok := t.(tool.Adoptable); ok {
		if err := e.core.Guarded("stop", func() error {
			return survivor.Stop(ctx, core.ToolCall(row, time.Time{}))
		}); err != nil {
			e.core.Log.Error("process of a dead execution not stopped", "call", row.Key, "error", tool.Chain(err))
		}
	}
	cause := perdure.CauseInterrupt
	if how == perdure.TakeOverTimeout {
		cause = perdure.CauseDeadline
	}
	e.tasks.Abandon(ctx, row.Key, string(cause))
	run.Done(e.settledOutcome(run, row, core.CauseResult(cause, row)))
	return nil
}

// gaveUpResult is the result of a call whose process crashed too often.
func gaveUpResult(row perdure.Call) tool.Result {
	r := tool.Failf("gave up after %d executions", row.Executions)
	r.ErrorKind = perdure.ErrorInternal
	return r
}

// claim records the intent to run a call: its ledger row and its event.
func (s *step) claim(c perdure.ClaimCall) error {
	if withheld, err := s.withhold(c); err != nil || withheld {
		return err
	}
	if affordable, err := s.reserveCall(c); err != nil || !affordable {
		return err
	}
	if c.Call.Lane == perdure.Background {
		return s.claimRouted(c)
	}
	key := perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}
	call := perdure.Call{
		Key: key, Turn: c.Turn, Tool: c.Call.Name, Args: c.Call.Args,
		Fingerprint: c.Call.Fingerprint, Class: c.Call.Class,
		Token: core.NewToken(), Worker: s.e.core.Worker, Epoch: s.row.Epoch,
	}
	outcome, row, err := s.tx.Calls().Claim(call, s.e.core.WorkerAlive(s.tx.Reader()))
	if err != nil {
		return err
	}
	if outcome == perdure.Claimed {
		s.claimed[c.Call.ID] = row
		return s.append([]perdure.Event{c.Event})
	}
	if err := s.releaseReservation(c.Call.ID); err != nil {
		return err
	}
	return s.answerClaimed(c, outcome, row)
}

// answerClaimed answers a call whose row exists although the journal has no start of it. Row and
// event are written in one commit, so either the call id was reused with other content, or the
// ledger was changed from outside.
func (s *step) answerClaimed(c perdure.ClaimCall, outcome perdure.ClaimOutcome, row perdure.Call) error {
	var result perdure.ToolResult
	switch {
	case outcome == perdure.AlreadySettled && row.Result != nil:
		result = *row.Result
	case outcome == perdure.DeterminismViolation:
		s.e.core.Log.Error("determinism violation", "session", s.d.ID, "call", c.Call.ID, "stored", row.Fingerprint,
			"current", c.Call.Fingerprint)
		result = perdure.Refused(c.Call.ID, perdure.ErrorDeterminism,
			"this call id was used before with different content")
	case outcome == perdure.AlreadyUnknown:
		result = perdure.Failed(c.Call.ID, perdure.ErrorUnknown, perdure.TextUnknown)
	default:
		return fmt.Errorf("call %s: %w: another worker runs it", row.Key, perdure.Conflict)
	}
	event := c.Event
	event.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: result.Status(), Result: result,
		Replayed: true}
	return s.append([]perdure.Event{event})
}
