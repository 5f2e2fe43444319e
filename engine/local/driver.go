package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
)

// driver is the one goroutine that owns a session while it is not at rest. Everybody else sends it outcomes
// and wakes it.
type driver struct {
	e        *Engine
	id       perdure.SessionID
	outcomes chan effect.Outcome // capacity: a step's calls and the model, so that no finisher waits
	woken    chan struct{}       // capacity 1: the journal has something new
	again    bool                // guarded by e.mu: woken since the driver last looked

	drive  *effect.Drive
	unsaid []effect.Outcome // only touched in run: came in, and its commit failed
	work   map[string]*act  // only touched in run: what is carried out, by its key
	idle   *watchdog        // only touched in run
	alarm  *time.Timer      // only touched in run; nil: none was set
}

// act is one command in work.
type act struct {
	stop    context.CancelCauseFunc // of a model call; nil for a tool call, which the dispatcher stops
	stopped bool
}

// wake makes sure that somebody looks at a session: its driver, or a new one. Before Run it is remembered.
func (e *Engine) wake(id perdure.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		e.woken[id] = struct{}{}
		return
	}
	if d := e.drivers[id]; d != nil {
		d.again = true
		select {
		case d.woken <- struct{}{}:
		default:
		}
		return
	}
	e.startDriver(id)
}

// startDriver is called with e.mu held.
func (e *Engine) startDriver(id perdure.SessionID) {
	d := &driver{
		e: e, id: id, woken: make(chan struct{}, 1), work: map[string]*act{},
		outcomes: make(chan effect.Outcome, perdure.MaxCallsPerStep+1),
	}
	e.drivers[id] = d
	ctx := e.ctx
	e.group.Go(func() { d.live(ctx) })
}

// live drives the session until it rests, and again if it was woken meanwhile.
func (d *driver) live(ctx context.Context) {
	for attempt := 1; ; attempt++ {
		err := d.run(ctx)
		if err == nil {
			attempt = 0
		}
		if d.finish(ctx, err) {
			return
		}
		if err != nil {
			d.e.cfg.Log.Warn("a session is taken up again", "session", d.id, "error", err)
			d.pause(ctx, perdure.RetryDelay(min(attempt, 5), 0, string(d.id))/10)
		}
	}
}

// finish decides under the lock whether the driver goes: nothing can wake it between that and its removal.
func (d *driver) finish(ctx context.Context, err error) bool {
	d.e.mu.Lock()
	defer d.e.mu.Unlock()
	switch {
	case store.Broken(err):
		d.e.cfg.Log.Error("the store failed", "session", d.id, "error", err)
		d.e.fail(err)
	case errors.Is(err, effect.Elsewhere) && d.again && ctx.Err() == nil: // it may rest by now, without what came last
		d.again = false
		return false
	case ctx.Err() != nil, errors.Is(err, perdure.Lost), errors.Is(err, perdure.NotFound), permanent(err):
	case err != nil, d.again:
		d.again = false
		return false
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, effect.Elsewhere) {
		d.e.cfg.Log.Error("a session is let go", "session", d.id, "error", err)
	}
	if err != nil {
		d.e.effects.LetGo(d.id) // at rest its calls may still be carried on here, by who waits for a person
	}
	delete(d.e.drivers, d.id)
	return true
}

// permanent reports an error that another attempt cannot mend: a journal that cannot be folded, for one.
func permanent(err error) bool {
	return errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Conflict)
}

func (d *driver) pause(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// run takes the session and loops: do what is due, commit what came of it, until it rests.
func (d *driver) run(ctx context.Context) error {
	d.work = map[string]*act{}
	drive, due, err := d.e.effects.Take(ctx, d.id)
	if err != nil {
		return err
	}
	d.drive = drive
	d.e.resumed(d.id)
	defer d.quiet()
	d.idle = d.e.watchIdle(d.id)
	defer d.idle.end()
	d.gather() // what came in while the driver paused
	models, stop := context.WithCancelCause(ctx)
	defer stop(perdure.CauseShutdown)
	if len(d.unsaid) > 0 {
		if due, err = d.commit(ctx); err != nil {
			return err
		}
	}
	for !drive.Rested {
		for _, command := range due {
			if err := d.begin(models, command); err != nil {
				return err
			}
		}
		if due, err = d.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// quiet stops the alarm.
func (d *driver) quiet() {
	if d.alarm != nil {
		d.alarm.Stop()
		d.alarm = nil
	}
}

// await waits for outcomes or news and commits them together.
func (d *driver) await(ctx context.Context) ([]perdure.Command, error) {
	if err := d.idle.look(ctx, d.drive); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, d.drain(ctx)
	case <-d.woken:
	case outcome := <-d.outcomes:
		d.unsaid = append(d.unsaid, outcome)
		d.e.sign(d.id)
	}
	d.e.mu.Lock()
	d.again = false
	d.e.mu.Unlock()
	d.gather()
	if ctx.Err() != nil { // both came at once, and a commit would be refused
		return nil, d.drain(ctx)
	}
	return d.commit(ctx)
}

// gather takes the outcomes that have come in.
func (d *driver) gather() {
	for len(d.outcomes) > 0 {
		d.unsaid = append(d.unsaid, <-d.outcomes)
	}
}

// commit records what came in. What could not be recorded is kept for the next round.
func (d *driver) commit(ctx context.Context) ([]perdure.Command, error) {
	due, err := d.e.effects.Commit(ctx, d.drive, d.unsaid)
	if err == nil {
		d.unsaid = nil
		d.forget(due)
	}
	return due, err
}

// drain records what has come in, and lets running foreground calls settle when the engine stops: until their contexts have
// ended and the lanes are empty. Nothing new is claimed (RC11).
func (d *driver) drain(ctx context.Context) error {
	d.drive.Draining = true
	last := context.WithoutCancel(ctx)
	for open := true; len(d.unsaid) > 0 || open && d.callsInWork(); {
		if len(d.unsaid) == 0 {
			select {
			case <-d.e.emptied:
				open = false
			case outcome := <-d.outcomes:
				d.unsaid = append(d.unsaid, outcome)
			}
		}
		d.gather()
		if len(d.unsaid) == 0 {
			continue
		}
		if _, err := d.commit(last); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// forget drops the acts that no command asks for any more.
func (d *driver) forget(due []perdure.Command) {
	wanted := map[string]bool{}
	for _, command := range due {
		wanted[actKey(command)] = true
	}
	for key := range d.work {
		if !wanted[key] {
			delete(d.work, key)
		}
	}
}

func (d *driver) callsInWork() bool {
	for _, a := range d.work {
		if a.stop == nil {
			return true
		}
	}
	return false
}

// actKey names an act, so that a command that is due again is not begun again.
func actKey(command perdure.Command) string {
	switch c := command.(type) {
	case perdure.CallModel:
		return "model " + string(c.Exec)
	case perdure.RunCall:
		return "call " + string(c.Call.ID)
	case perdure.SumUp:
		return fmt.Sprint("sum up ", c.Turn, c.Fact.Compaction.Drop)
	case perdure.RepairTranscript:
		return fmt.Sprint("repair ", c.Turn, len(c.Breaches))
	case perdure.JudgeCall:
		return "judge " + string(c.Call.ID) + " " + string(c.Call.Approval)
	}
	return ""
}

// begin carries a command out, unless it is in work; a stop is passed on once.
func (d *driver) begin(models context.Context, command perdure.Command) error {
	key := actKey(command)
	known := d.work[key]
	switch c := command.(type) {
	case perdure.CallModel:
		if known != nil {
			d.stopModel(known, c)
			return nil
		}
		d.askModel(models, key, c)
	case perdure.RunCall:
		if known != nil {
			d.stopCall(known, c)
			return nil
		}
		return d.runCall(models, key, c)
	case perdure.SumUp:
		d.look(models, key, func(ctx context.Context, s *perdure.Session) (effect.Outcome, bool) {
			return d.e.effects.SumUp(ctx, s, c)
		})
	case perdure.RepairTranscript:
		d.look(models, key, func(ctx context.Context, s *perdure.Session) (effect.Outcome, bool) {
			return d.e.effects.Repair(ctx, s, c)
		})
	case perdure.JudgeCall:
		if known == nil {
			d.judgeCall(models, key, c)
		}
	case perdure.Until:
		d.wakeAt(c.At)
	}
	return nil
}

// judgeCall asks hooks and policies, which may take their time.
func (d *driver) judgeCall(ctx context.Context, key string, c perdure.JudgeCall) {
	ctx, stop := context.WithCancelCause(ctx)
	d.work[key] = &act{stop: stop}
	session := d.drive.Session()
	d.e.group.Go(func() {
		defer stop(nil)
		d.outcomes <- d.e.effects.JudgeCall(ctx, session, c)
	})
}

// look carries out what has to be done before the model is asked, unless it is in work.
func (d *driver) look(models context.Context, key string, do func(context.Context, *perdure.Session) (effect.Outcome, bool)) {
	if d.work[key] != nil {
		return
	}
	ctx, stop := context.WithCancelCause(models)
	d.work[key] = &act{stop: stop}
	session := d.drive.Session()
	d.e.group.Go(func() {
		defer stop(nil)
		if outcome, told := do(ctx, session); told {
			d.outcomes <- outcome
		}
	})
}

// wakeAt lets the driver look again at a moment. A timer that rings for nothing costs a look.
func (d *driver) wakeAt(at time.Time) {
	if d.alarm != nil {
		d.alarm.Stop()
	}
	d.alarm = time.AfterFunc(time.Until(at)+time.Millisecond, func() { d.e.wake(d.id) })
}

func (d *driver) stopModel(a *act, c perdure.CallModel) {
	if c.Stop {
		a.stop(perdure.CauseInterrupt)
	}
}

func (d *driver) stopCall(a *act, c perdure.RunCall) {
	if c.Stop && !a.stopped {
		a.stopped = true
		d.e.lanes.InterruptWork(perdure.CallKey{Session: d.id, Call: c.Call.ID}.String())
	}
}

func (d *driver) askModel(models context.Context, key string, c perdure.CallModel) {
	ctx, stop := context.WithCancelCause(models)
	d.work[key] = &act{stop: stop}
	question := d.drive.Question(c)
	d.e.group.Go(func() {
		defer stop(nil)
		if outcome, told := d.e.effects.AskModel(ctx, question); told {
			d.outcomes <- outcome
		}
	})
}

func (d *driver) runCall(ctx context.Context, key string, c perdure.RunCall) error {
	run := effect.CallRun{Session: d.drive.Session(), Drive: d.drive, Command: c, Done: d.deliver}
	d.work[key] = &act{}
	if d.e.lanes.Running(perdure.CallKey{Session: d.id, Call: c.Call.ID}.String()) {
		d.stopCall(d.work[key], c) // an earlier round of this driver began it; it tells us
		return nil
	}
	return d.e.effects.StartCall(ctx, run)
}

func (d *driver) deliver(outcome effect.Outcome) { d.outcomes <- outcome }
