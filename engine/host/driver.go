package host

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/effect/core"
)

// Driver makes the decisions of a session while the session is not idle. One goroutine runs it. No
// other goroutine touches its state: they send it outcomes, or wake it after they have written to
// the journal.
type Driver struct {
	e          *Host
	id         perdure.SessionID
	outcomes   chan core.Outcome // capacity: the calls of a step and a model call, so that no sender waits
	woken      chan struct{}     // capacity 1: the journal has new events
	wokenAgain atomic.Bool       // woken since the driver last read the journal
	grown      atomic.Int64      // the last seq that a watch of the journal has seen
	grant      atomic.Pointer[Grant]

	drive       *effect.Drive
	uncommitted []core.Outcome             // only touched in Run: received, but not committed yet
	running     map[string]*runningCommand // only touched in Run: running commands, by commandKey
	started     map[string]bool            // only touched in Run: commandKeys of the calls whose outcomes come here
	idle        *watchdog                  // only touched in Run
	alarm       *time.Timer                // only touched in Run; nil: not set
}

// runningCommand is one running command.
type runningCommand struct {
	stop    context.CancelCauseFunc // of a model call; nil for a tool call, which the dispatcher stops
	stopped bool
	forced  bool  // stopped without a grace period
	detach  int64 // seq of the last intent to detach the call that was acted on
	// inherited says that a former driver of this process started the call, and gave it up: its
	// outcome does not come here.
	inherited bool
}

// NewDriver returns a driver of a session. It does nothing before Run.
func (e *Host) NewDriver(id perdure.SessionID) *Driver {
	return &Driver{
		e: e, id: id, woken: make(chan struct{}, 1), running: map[string]*runningCommand{}, started: map[string]bool{},
		outcomes: make(chan core.Outcome, perdure.MaxCallsPerStep+1),
	}
}

// Wake makes the driver read the journal. It does not block.
func (d *Driver) Wake() {
	d.wokenAgain.Store(true)
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// Use sets the grant under which the driver acquires the session.
func (d *Driver) Use(g Grant) { d.grant.Store(&g) }

// Grown makes the driver read the journal up to an event, unless it has read it. It does not block.
func (d *Driver) Grown(seq int64) {
	for last := d.grown.Load(); last < seq && !d.grown.CompareAndSwap(last, seq); last = d.grown.Load() {
	}
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// Pending reports whether a Wake or a Grown came that the driver has not followed.
func (d *Driver) Pending() bool {
	return d.wokenAgain.Load() || d.drive != nil && d.grown.Load() > d.drive.Session().Seq
}

// Woken receives after a Wake or Grown that no commit has followed.
func (d *Driver) Woken() <-chan struct{} { return d.woken }

// WokenAgain reports whether the driver was woken since it last read the journal, and resets that.
func (d *Driver) WokenAgain() bool { return d.wokenAgain.Swap(false) }

// Run acquires the session and loops until it is idle: start what is due, wait for outcomes, commit
// them. After an error it may be called again; outcomes that were not committed are kept.
//
// Lost: another worker drives the session. NotFound: the session is gone. Invalid and Conflict: its
// journal cannot be continued. Storage: the store can no longer guarantee durability.
func (d *Driver) Run(ctx context.Context) error {
	d.running = map[string]*runningCommand{}
	var g Grant
	if granted := d.grant.Load(); granted != nil {
		g = *granted
	}
	woken := d.wokenAgain.Swap(false) // the journal is read now
	drive, due, err := d.e.effects.Acquire(ctx, d.id, core.Grant(g))
	if err != nil {
		if woken {
			d.wokenAgain.Store(true)
		}
		return err
	}
	d.drive = drive
	d.e.reportResumed(d.id)
	defer d.stopAlarm()
	d.idle = d.e.watchIdle(d.id)
	defer d.idle.end()
	d.receiveOutcomes() // outcomes that arrived during the pause after an error
	models, stop := context.WithCancelCause(ctx)
	defer stop(perdure.CauseShutdown)
	if len(d.uncommitted) > 0 {
		if due, err = d.committed(d.e.effects.Commit(ctx, drive, d.uncommitted)); err != nil {
			return err
		}
	}
	ran := false
	for !drive.Released {
		ran = ran || drive.Session().Turn != nil
		for _, command := range due {
			if err := d.start(models, command); err != nil {
				return err
			}
		}
		if due, err = d.await(ctx); err != nil {
			return err
		}
	}
	if ran {
		d.e.nameSession(drive.Session())
	}
	return nil
}

// stopAlarm stops the alarm timer.
func (d *Driver) stopAlarm() {
	if d.alarm != nil {
		d.alarm.Stop()
		d.alarm = nil
	}
}

// await waits for outcomes or new events, and commits them together.
func (d *Driver) await(ctx context.Context) ([]perdure.Command, error) {
	if err := d.idle.look(ctx, d.drive); err != nil {
		return nil, err
	}
	for waits := true; waits; {
		select {
		case <-ctx.Done():
			return nil, d.drain(ctx)
		case <-d.woken:
			waits = !d.wokenAgain.Load() && d.grown.Load() <= d.drive.Session().Seq && d.grant.Load() != nil
			continue
		case outcome := <-d.outcomes:
			d.uncommitted = append(d.uncommitted, outcome)
			d.e.reportActivity(d.id)
			waits = false
		}
	}
	d.wokenAgain.Store(false)
	d.receiveOutcomes()
	if ctx.Err() != nil { // both happened at once; a commit with ctx would be refused
		return nil, d.drain(ctx)
	}
	return d.committed(d.e.effects.Commit(ctx, d.drive, d.uncommitted))
}

// receiveOutcomes receives the outcomes that are waiting.
func (d *Driver) receiveOutcomes() {
	for len(d.outcomes) > 0 {
		d.uncommitted = append(d.uncommitted, <-d.outcomes)
	}
}

// committed drops the received outcomes after their commit. After an error they are kept for the
// next attempt.
func (d *Driver) committed(due []perdure.Command, err error) ([]perdure.Command, error) {
	if err == nil {
		d.uncommitted = nil
		d.dropFinished(due)
	}
	return due, err
}

// drain runs when the engine stops. It records the received outcomes, and lets running foreground
// calls settle until the dispatcher has ended their contexts and they have returned. Nothing new is
// claimed (RC11).
func (d *Driver) drain(ctx context.Context) error {
	d.drive.Draining = true
	last := context.WithoutCancel(ctx)
	var late <-chan time.Time // a session that is granted may have to leave this process before the engine stops
	if d.grant.Load() != nil {
		timer := time.NewTimer(max(d.e.cfg.Timing.Drain, 0))
		defer timer.Stop()
		late = timer.C
	}
	for open := true; len(d.uncommitted) > 0 || open && d.hasRunningCalls(); {
		if len(d.uncommitted) == 0 {
			select {
			case <-d.e.lanesEmpty:
				open = false
			case <-late:
				open = false
				d.giveUpCalls()
			case outcome := <-d.outcomes:
				d.uncommitted = append(d.uncommitted, outcome)
			}
		}
		d.receiveOutcomes()
		if len(d.uncommitted) == 0 {
			continue
		}
		if _, err := d.committed(d.e.effects.Commit(last, d.drive, d.uncommitted)); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// giveUpCalls stops the running calls without recording an end, because another worker will take
// the session over.
func (d *Driver) giveUpCalls() {
	for key := range d.running {
		if id, ok := strings.CutPrefix(key, "call "); ok {
			d.e.lanes.Cancel(perdure.CallKey{Session: d.id, Call: perdure.CallID(id)}.String(), perdure.CauseSuperseded)
		}
	}
}

// dropFinished drops the acts that no command refers to any more.
func (d *Driver) dropFinished(due []perdure.Command) {
	wanted := map[string]bool{}
	for _, command := range due {
		wanted[commandKey(command)] = true
	}
	for key := range d.running {
		if !wanted[key] {
			delete(d.running, key)
			delete(d.started, key)
		}
	}
}

func (d *Driver) hasRunningCalls() bool {
	for _, a := range d.running {
		if a.stop == nil {
			return true
		}
	}
	return false
}

// commandKey identifies an act, so that a command that is due again does not start it twice.
func commandKey(command perdure.Command) string {
	switch c := command.(type) {
	case perdure.CallModel:
		return "model " + string(c.Exec)
	case perdure.RunCall:
		return "call " + string(c.Call.ID)
	case perdure.SummariseContext:
		return fmt.Sprint("sum up ", c.Turn, c.Fact.Compaction.Drop)
	case perdure.RepairTranscript:
		return fmt.Sprint("repair ", c.Turn, len(c.Breaches))
	case perdure.ReplanCall:
		return "judge " + string(c.Call.ID) + " " + string(c.Call.Approval)
	}
	return ""
}

// start starts a command, unless it is running already. A running command is stopped at most once.
func (d *Driver) start(models context.Context, command perdure.Command) error {
	key := commandKey(command)
	known := d.running[key]
	switch c := command.(type) {
	case perdure.CallModel:
		if known != nil {
			d.stopModel(known, c)
			return nil
		}
		d.askModel(models, key, c)
	case perdure.RunCall:
		if known != nil && !(known.inherited && !d.runsHere(c)) {
			d.controlCall(models, known, c)
			return nil
		}
		return d.runCall(models, key, c)
	case perdure.SummariseContext:
		d.prepare(models, key, func(ctx context.Context, s *perdure.Session) (core.Outcome, bool) {
			return d.e.effects.Generation().Summarise(ctx, s, c)
		})
	case perdure.RepairTranscript:
		d.prepare(models, key, func(ctx context.Context, s *perdure.Session) (core.Outcome, bool) {
			return d.e.effects.Repair(ctx, s, c)
		})
	case perdure.ReplanCall:
		if known == nil {
			d.judgeCall(models, key, c)
		}
	case perdure.WaitUntil:
		d.wakeAt(c.At)
	}
	return nil
}

// judgeCall evaluates the hooks and policies of a call in a goroutine, because they may take long.
func (d *Driver) judgeCall(ctx context.Context, key string, c perdure.ReplanCall) {
	ctx, stop := context.WithCancelCause(ctx)
	d.running[key] = &runningCommand{stop: stop}
	session := d.drive.Session()
	d.e.work.Go(func() {
		defer stop(nil)
		d.outcomes <- d.e.effects.Admission().JudgeCall(ctx, session, c)
	})
}

// prepare starts a preparation for the next model call, unless it is running already.
func (d *Driver) prepare(
	models context.Context, key string, do func(context.Context, *perdure.Session) (core.Outcome, bool),
) {
	if d.running[key] != nil {
		return
	}
	ctx, stop := context.WithCancelCause(models)
	d.running[key] = &runningCommand{stop: stop}
	session := d.drive.Session()
	d.e.work.Go(func() {
		defer stop(nil)
		if outcome, told := do(ctx, session); told {
			d.outcomes <- outcome
		}
	})
}

// wakeAt wakes the driver at a given time. A wake without need costs one read.
func (d *Driver) wakeAt(at time.Time) {
	if d.alarm != nil {
		d.alarm.Stop()
	}
	d.alarm = time.AfterFunc(time.Until(at)+time.Millisecond, func() { d.e.scheduler.Wake(d.id) })
}

func (d *Driver) stopModel(a *runningCommand, c perdure.CallModel) {
	if c.Stop {
		a.stop(perdure.CauseInterrupt)
	}
}

// controlCall stops, forces or detaches a running call, each intent once.
func (d *Driver) controlCall(ctx context.Context, a *runningCommand, c perdure.RunCall) {
	key := perdure.CallKey{Session: d.id, Call: c.Call.ID}
	if c.Stop && !a.stopped {
		a.stopped = true
		d.e.lanes.InterruptWork(key.String())
	}
	if c.Force && !a.forced && d.e.lanes.InterruptWork(key.String()) {
		a.forced = true
		d.e.lanes.Force(key.String(), perdure.CauseInterrupt)
	}
	if c.Detach && c.Call.DetachIntent > a.detach {
		a.detach = c.Call.DetachIntent
		d.e.work.Go(func() { d.e.effects.Calls().CarryOutDetach(ctx, key) })
	}
}

func (d *Driver) askModel(models context.Context, key string, c perdure.CallModel) {
	ctx, stop := context.WithCancelCause(models)
	d.running[key] = &runningCommand{stop: stop}
	question := d.drive.ModelCall(c)
	d.e.work.Go(func() {
		defer stop(nil)
		if outcome, told := d.e.effects.Generation().Ask(ctx, question); told {
			d.outcomes <- outcome
		}
	})
}

func (d *Driver) runCall(ctx context.Context, key string, c perdure.RunCall) error {
	a := &runningCommand{}
	d.running[key] = a
	if d.runsHere(c) {
		a.inherited = !d.started[key] // else an earlier run of this driver started it
		d.controlCall(ctx, a, c)
		return nil
	}
	request := d.drive.CallRequest(c, d.deliver)
	request.Inherited = !d.started[key]
	err := d.e.effects.Calls().Start(ctx, request)
	if err == nil {
		d.started[key] = true
	}
	if err == nil && c.Detach { // its intent is older than this execution
		d.controlCall(ctx, a, c)
	}
	return err
}

// runsHere reports whether the work of a call runs in this process.
func (d *Driver) runsHere(c perdure.RunCall) bool {
	return d.e.lanes.Running(perdure.CallKey{Session: d.id, Call: c.Call.ID}.String())
}

func (d *Driver) deliver(outcome core.Outcome) { d.outcomes <- outcome }
