package effect

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// CallRun is a foreground call in work for a driver.
type CallRun struct {
	Session *perdure.Session // as of the commit that claimed it
	Drive   *Drive
	Command perdure.RunCall
	Done    func(Outcome) // called once, from another goroutine; not called when the runtime shuts down

	began time.Time // of an execution after a death: time in which nothing ran does not count; zero: when it was claimed
}

// StartCall runs a claimed call, or takes it over, and tells its outcome by run.Done (TN10, LG8).
func (e *Effects) StartCall(ctx context.Context, run CallRun) error {
	row, err := e.rowOf(ctx, run)
	if err != nil {
		return fmt.Errorf("start call %s: %w", run.Command.Call.ID, err)
	}
	t, ok := e.lookup(run.Session.Agent, leftTurn(run.Session), row.Tool)
	how, ours := e.unstarted.LoadAndDelete(row.Token)
	switch {
	case ours && how != perdure.TakeOver(""):
		return e.proceedCall(ctx, run, row, t, how.(perdure.TakeOver))
	case !ours && row.Worker == e.cfg.Worker:
		return nil // it was begun here: its end is on its way
	case !ours || run.Command.Stop:
		return e.takeOverCall(ctx, run, row)
	}
	if !ok {
		run.Done(e.settled(run, row, tool.Error("Tool definition not found: "+row.Tool)))
		return nil
	}
	if run.Command.Call.Approval != "" { // a person was asked meanwhile, so it goes out only now
		if held := e.held(ctx, run.Session.ID, run.Session.Agent, t); held != nil {
			run.Done(e.settled(run, row, *held))
			return nil
		}
	}
	return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
		return enter(ctx, t, call, env)
	})
}

// rowOf returns the call's row: as this driver claimed it, or from the ledger.
func (e *Effects) rowOf(ctx context.Context, run CallRun) (row perdure.Call, err error) {
	if row, ok := run.Drive.claimed[run.Command.Call.ID]; ok {
		delete(run.Drive.claimed, run.Command.Call.ID)
		return row, nil
	}
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		row, err = r.Call(perdure.CallKey{Session: run.Drive.ID, Call: run.Command.Call.ID})
		return err
	})
	return row, err
}

// execute carries one execution through the runner to its settlement, as a call or, if it leaves its turn, as a task.
func (e *Effects) execute(run CallRun, row perdure.Call, t tool.Tool, how func(context.Context, tool.Call, tool.Env) tool.Result) error {
	spec := t.Spec()
	began := run.began
	if began.IsZero() {
		began = row.ClaimedAt
	}
	c := &callRun{e: e, run: run, row: row, call: toolCall(row, began.Add(tool.DeadlineOf(t, row.Args))), owner: ownerOf(run.Session).of(run.Drive.row), name: spec.DisplayName}
	c.at = callTime(run.Session, row.Key.Call)
	c.call.Args, c.own = e.vault.Fill(row.Key, spec.Parameters, row.Args)
	c.sink = callSink{e: e, work: row.Key.String(), call: c.call, keep: true}
	env := e.env(run.Session, c.owner, c.call, &c.sink)
	env.Dialog, env.Remote = &dialog{e: e, call: c}, remote{e: e, call: c}
	work := dispatch.Work{
		ID: row.Key.String(), Session: row.Key.Session, Turn: row.Turn, Lane: perdure.Foreground, Deadline: c.call.Deadline,
		Soft: run.Command.Call.Soft, Stall: spec.Stall, Detach: c.detach,
		Run: func(ctx context.Context) tool.Result {
			env := env
			env.Trace = c.owner.traceparent(ctx)
			return e.veiled(ctx, t, hidden{row.Args, c.own}, env, func(env tool.Env) tool.Result { return how(ctx, env.Call, env) })
		},
		End: c.end, Gone: c.gone,
	}
	if killer, ok := t.(tool.Killer); ok {
		work.Kill = func(force bool) {
			if e.cfg.Holds() { // else it may be another worker's, which has the same key
				killer.Kill(c.call, force)
			}
		}
	}
	if run.Session.Agent.DryRun { // it leaves nothing behind, and asks nobody (AP13)
		work.Detach = nil
	}
	if !e.cfg.Holds() { // it is another's to run by now (TK8)
		return fmt.Errorf("start call %s: %w: the lease has passed", row.Key, perdure.Lost)
	}
	e.calls.Store(row.Key, c)
	work = e.cfg.Telemetry.Work(work, telemetry.Execution{Call: row, Turn: run.Session.Turn, Owner: run.Session, Arguments: row.Args})
	if err := e.cfg.Runner.Start(work); err != nil {
		e.calls.CompareAndDelete(row.Key, c)
		return err
	}
	return nil
}

// leftAsItIs reports work that did not come to its own end before the runtime stopped. A real result that
// came in time counts.
func leftAsItIs(end dispatch.End) bool {
	return end.Cause == perdure.CauseShutdown && (end.DidNotStop || !end.Result.IsSuccess())
}

// ended turns the end of an execution into the call's result. A real result that came before the fence is
// kept, whatever was asked meanwhile (RC3).
func (e *Effects) ended(row perdure.Call, end dispatch.End) tool.Result {
	if end.DidNotStop {
		return causeResult(end.Cause, row)
	}
	if end.Cause != "" && !end.Result.IsSuccess() && dispatch.Echoes(end.Result) {
		return causeResult(end.Cause, row)
	}
	return end.Result
}

// causeResult is the result of work whose context ended.
func causeResult(cause perdure.Cause, row perdure.Call) tool.Result {
	return dispatch.Stopped(cause, elapsed(row.ClaimedAt, time.Now()))
}

// settled makes the outcome that ends a call: its settlement and tool.completed are one commit (LG7).
func (e *Effects) settled(run CallRun, row perdure.Call, r tool.Result) Outcome {
	e.vault.Drop(row.Key)
	r, _ = e.gate().After(context.Background(), toolCall(row, time.Time{}), r)
	record := e.record(row, r)
	state := perdure.CallSettled
	fact := perdure.ToolCompleted{
		CallID: row.Key.Call, Name: row.Tool, Status: record.Status(), Result: record, DurationMS: elapsed(row.ClaimedAt, time.Now()).Milliseconds(),
	}
	events := []perdure.Event{{Session: row.Key.Session, Actor: "runtime", Turn: run.Command.Turn, Call: row.Key.Call, Fact: fact}}
	if record.ConnectionRequired != "" && run.Session.Agent.ClientConnections { // the turn waits for the client (AP12)
		events[0].Fact = perdure.ToolCallRequested{CallID: row.Key.Call, Name: row.Tool, Args: row.Args, Connection: record.ConnectionRequired}
		waiting := events[0]
		waiting.Fact = perdure.SessionAwaits{TurnID: run.Command.Turn, CallIDs: []perdure.CallID{row.Key.Call}}
		events = append(events, waiting)
	}
	if record.ErrorKind == perdure.ErrorUnknown {
		state = perdure.CallUnknown
		unknown := events[0]
		unknown.Fact = perdure.ToolUnknown{CallID: row.Key.Call, Name: row.Tool, Since: row.ClaimedAt, IdempotencyKey: row.Key.IdempotencyKey()}
		events = append(events, unknown)
	}
	return Outcome{
		Events: events,
		Settle: &Settlement{Key: row.Key, Token: row.Token, State: state, Result: record},
	}
}

// record is wholeRecord within the limit of what a model reads.
func (e *Effects) record(row perdure.Call, r tool.Result) perdure.ToolResult {
	key := row.Key
	return e.shorten(key, e.wholeRecord(row, r), func(r store.Reader) error {
		now, err := r.Call(key)
		if err == nil && now.Token != row.Token {
			err = fmt.Errorf("call %s: %w: another owner has it", key, perdure.Lost)
		}
		return err
	})
}

// wholeRecord converts a result and logs what nobody else may read (TL12).
func (e *Effects) wholeRecord(row perdure.Call, r tool.Result) perdure.ToolResult {
	record, err := r.Record(row.Key.Call)
	if err != nil {
		e.cfg.Log.Error("a tool failed internally", "tool", row.Tool, "session", row.Key.Session, "call", row.Key.Call, "error", tool.Chain(err))
	}
	return tool.CheckImages(record)
}

// shorten cuts a result to what a model reads. What it loses by that, and the raw output, are written to files of the session
// first, each to its own (TL16), under the fence of the call whose result it is; nil: a client gave it.
func (e *Effects) shorten(key perdure.CallKey, record perdure.ToolResult, fence func(store.Reader) error) perdure.ToolResult {
	write := func(path, whole string) string {
		content := []byte(whole[:min(len(whole), tool.RawOutputLimit)])
		if err := e.writeFenced(tool.Call{Session: key.Session, ID: key.Call}, tool.FileWrite{Path: path, Content: content}, fence); err != nil {
			e.cfg.Log.Error("a whole output was not stored", "session", key.Session, "call", key.Call, "path", path, "error", err)
			return ""
		}
		return path
	}
	var stored tool.StoredOutput
	result := tool.OutputPath(key.Call)
	if record.RawOutput != nil {
		stored.RawPath, result = write(result, *record.RawOutput), tool.ResultPath(key.Call)
	}
	if len(record.Result) > tool.ResultLimit {
		stored.Path = write(result, string(record.Result))
	}
	return stored.Cut(record, tool.ResultLimit)
}

// takeOverCall decides by the finding what becomes of a claim whose worker is dead (LG8).
func (e *Effects) takeOverCall(ctx context.Context, run CallRun, row perdure.Call) error {
	key := row.Key
	if row.State != perdure.CallRunning {
		return fmt.Errorf("take over call %s: %w: the ledger says %s, the journal says running", key, perdure.Conflict, row.State)
	}
	t, known := e.tool(row.Tool) // whatever the agent may see by now: it could when the call started
	found := perdure.Found{StopRequested: run.Command.Stop, Class: row.Class, Executions: row.Executions, MaxExecutions: e.cfg.MaxExecutions}
	if known {
		found = e.look(ctx, found, t, toolCall(row, row.ClaimedAt.Add(tool.DeadlineOf(t, row.Args))))
	}
	how := found.Judge()
	if !known && (how == perdure.RunAgain || how == perdure.RunFirst) {
		how = perdure.GiveUp
	}
	e.cfg.Log.Info("call taken over", "call", key, "tool", row.Tool, "class", row.Class, "how", how)
	return e.carryOver(ctx, run, row, t, how)
}

// look asks what is left of an execution. A tool that cannot say leaves nothing known, and then nothing is
// run again.
func (e *Effects) look(ctx context.Context, found perdure.Found, t tool.Tool, call tool.Call) perdure.Found {
	_, found.Reconcile = t.(tool.Reconciler)
	found.PastDeadline = !call.Deadline.IsZero() && time.Now().After(call.Deadline)
	survivor, ok := t.(tool.Survivor)
	if !ok {
		return found
	}
	err := e.guarded("look", func() (err error) {
		found.Remains, err = survivor.Look(ctx, call)
		return err
	})
	if err != nil {
		e.cfg.Log.Error("what is left of a run cannot be found out", "session", call.Session, "call", call.ID, "error", tool.Chain(err))
		found.Remains, found.Class = perdure.RemainsNone, perdure.AtMostOnce
	}
	return found
}

// carryOver does what was judged. The row gets a fresh token before anything else happens.
func (e *Effects) carryOver(ctx context.Context, run CallRun, row perdure.Call, t tool.Tool, how perdure.TakeOver) error {
	old := row
	row.Token, row.Worker, row.Epoch = newToken(), ownerAfter(how, old.Worker, e.cfg.Worker), run.Drive.row.Epoch
	survivor, survives := t.(tool.Survivor)
	if how == perdure.RunAgain || how == perdure.RunFirst {
		row.Executions++
		if survives {
			if err := e.guarded("prepare", func() error { return survivor.Prepare(ctx, toolCall(row, time.Time{})) }); err != nil {
				e.cfg.Log.Error("a run cannot be prepared", "call", row.Key, "error", tool.Chain(err))
				how = perdure.GiveUp
			}
		}
	}
	e.unstarted.Store(row.Token, how)
	err := e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if _, err := tx.LockSession(run.Drive.ID, row.Epoch); err != nil {
			return err
		}
		events := []perdure.Event{{Session: run.Drive.ID, Actor: "runtime", Turn: row.Turn, Call: row.Key.Call, Fact: perdure.ToolTakenOver{
			CallID: row.Key.Call, Name: row.Tool, How: how, Executions: row.Executions,
		}}}
		stamp(events, tx.Now())
		if err := tx.Append(run.Drive.ID, events); err != nil {
			return err
		}
		return tx.TakeCall(old, row)
	})
	if err != nil {
		return fmt.Errorf("take over call %s: %w", row.Key, err)
	}
	e.unstarted.Delete(row.Token)
	return e.proceedCall(ctx, run, row, t, how)
}

// proceedCall goes on with a row that is ours.
func (e *Effects) proceedCall(ctx context.Context, run CallRun, row perdure.Call, t tool.Tool, how perdure.TakeOver) error {
	survivor, _ := t.(tool.Survivor)
	switch how {
	case perdure.RunAgain, perdure.RunFirst:
		run.began = time.Now()
		return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result { return enter(ctx, t, call, env) })
	case perdure.Adopt:
		return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
			return survivor.Adopt(ctx, call, env, env.Report())
		})
	case perdure.AskTool:
		return e.reconcile(run, row, t.(tool.Reconciler))
	case perdure.StopIt, perdure.StopLate:
		return e.stopRemains(ctx, run, row, t, how)
	case perdure.GiveUp:
		e.forsake(ctx, row.Key, "its call was given up")
		run.Done(e.settled(run, row, gaveUp(row)))
	default:
		run.Done(e.settled(run, row, unknownResult()))
	}
	return nil
}

// reconcile asks the tool whether the call happened; if it did not, it runs now, once.
func (e *Effects) reconcile(run CallRun, row perdure.Call, t tool.Reconciler) error {
	run.began = time.Now()
	return e.execute(run, row, t, func(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
		said, err := t.Reconcile(ctx, call, env)
		switch {
		case err == nil && said.Happened:
			return said.Result
		case err == nil && said.DidNotHappen:
			return enter(ctx, t, call, env)
		case ctx.Err() != nil:
			return tool.Internal(context.Cause(ctx))
		default:
			return unknownResult()
		}
	})
}

// stopRemains ends what a dead execution left behind and settles the call.
func (e *Effects) stopRemains(ctx context.Context, run CallRun, row perdure.Call, t tool.Tool, how perdure.TakeOver) error {
	if survivor, ok := t.(tool.Survivor); ok {
		if err := e.guarded("stop", func() error { return survivor.Stop(ctx, toolCall(row, time.Time{})) }); err != nil {
			e.cfg.Log.Error("what a call left behind was not stopped", "call", row.Key, "error", tool.Chain(err))
		}
	}
	cause := perdure.CauseInterrupt
	if how == perdure.StopLate {
		cause = perdure.CauseDeadline
	}
	e.forsake(ctx, row.Key, string(cause))
	run.Done(e.settled(run, row, causeResult(cause, row)))
	return nil
}

func unknownResult() tool.Result {
	r := tool.Error(perdure.TextUnknown)
	r.ErrorAs = perdure.ErrorUnknown
	return r
}

// gaveUp is the end of a call that took its process with it too often (LG9).
func gaveUp(row perdure.Call) tool.Result {
	r := tool.Failf("gave up after %d executions", row.Executions)
	r.ErrorAs = perdure.ErrorInternal
	return r
}

// toolCall is the row as its tool sees it.
func toolCall(row perdure.Call, deadline time.Time) tool.Call {
	return tool.Call{
		Session: row.Key.Session, Turn: row.Turn, ID: row.Key.Call, Task: row.Task, Attempt: row.Attempt, Execution: row.Executions,
		Tool: row.Tool, Args: row.Args, Key: row.Key.IdempotencyKey(), Class: row.Class, Deadline: deadline,
	}
}

// elapsed is how long it is from one moment of a wall clock to another. Between them that may have been set back; then it is
// no time (R11).
func elapsed(from, to time.Time) time.Duration { return max(to.Sub(from), 0) }

// claim writes the intent to run a call: its row and its event (LG1, LG4).
func (s *step) claim(c perdure.ClaimCall) error {
	if withheld, err := s.withhold(c); err != nil || withheld {
		return err
	}
	if affordable, err := s.affordCall(c); err != nil || !affordable {
		return err
	}
	if c.Call.Lane == perdure.Background {
		return s.claimRouted(c)
	}
	key := perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}
	call := perdure.Call{
		Key: key, Turn: c.Turn, Tool: c.Call.Name, Args: c.Call.Args, Fingerprint: c.Call.Fingerprint, Class: c.Call.Class,
		Token: newToken(), Worker: s.e.cfg.Worker, Epoch: s.row.Epoch,
	}
	outcome, row, err := s.tx.Claim(call, s.e.live(s.tx))
	if err != nil {
		return err
	}
	if outcome == perdure.Claimed {
		s.claimed[c.Call.ID] = row
		return s.append([]perdure.Event{c.Event})
	}
	if err := s.giveBack(c.Call.ID); err != nil {
		return err
	}
	return s.claimedBefore(c, outcome, row)
}

// claimedBefore answers a call whose row was there before its start was in the journal. The two are one
// commit, so this is a call id that came back with other content, or a ledger that was written past us.
func (s *step) claimedBefore(c perdure.ClaimCall, outcome perdure.ClaimOutcome, row perdure.Call) error {
	var result perdure.ToolResult
	switch {
	case outcome == perdure.AlreadySettled && row.Result != nil:
		result = *row.Result
	case outcome == perdure.DeterminismViolation:
		s.e.cfg.Log.Error("determinism violation", "session", s.d.ID, "call", c.Call.ID, "stored", row.Fingerprint, "current", c.Call.Fingerprint)
		result = perdure.Refused(c.Call.ID, perdure.ErrorDeterminism, "this call came before with other content")
	case outcome == perdure.AlreadyUnknown:
		result = perdure.Failed(c.Call.ID, perdure.ErrorUnknown, perdure.TextUnknown)
	default:
		return fmt.Errorf("call %s: %w: another worker runs it", row.Key, perdure.Conflict)
	}
	event := c.Event
	event.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: result.Status(), Result: result, Replayed: true}
	return s.append([]perdure.Event{event})
}
