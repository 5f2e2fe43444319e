package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
)

// timekeeper is what the engine remembers of its schedules. All of it can be lost: what fires stands in the store.
type timekeeper struct {
	planned chan struct{} // capacity 1: a schedule was made or changed

	late map[perdure.ScheduleID]perdure.Fire // only touched in keepTime: late fires that may be at work (SC20)
}

// planChanged tells the timekeeper that something else may be due.
func (e *Engine) planChanged() {
	select {
	case e.time.planned <- struct{}{}:
	default:
	}
}

// startTime begins to fire schedules, beside the work, until ctx ends.
func (e *Engine) startTime(ctx context.Context) {
	e.group.Go(func() {
		err := patiently(ctx, func() error { return e.rearm(ctx) })
		if err == nil {
			err = e.keepTime(ctx)
		}
		if ctx.Err() == nil && err != nil {
			e.cfg.Log.Error("the store failed", "worker", e.worker.ID, "error", err)
			e.mu.Lock()
			e.fail(err)
			e.mu.Unlock()
		}
	})
}

// rearm computes again what comes next of every schedule: the data of zones may have changed since (SC12).
func (e *Engine) rearm(ctx context.Context) error {
	var last perdure.ScheduleID
	for {
		var page []perdure.Schedule
		err := e.view(ctx, func(r store.Reader) (err error) {
			page, err = r.Schedules(store.ScheduleFilter{After: last, Limit: zoneCheckPage})
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, s := range page {
			if err := e.rearmOne(ctx, s); err != nil {
				return err
			}
		}
		last = page[len(page)-1].ID
	}
}

func (e *Engine) rearmOne(ctx context.Context, s perdure.Schedule) error {
	if !s.Enabled {
		return nil
	}
	timing, err := timingOf(s)
	if err != nil {
		e.cfg.Log.Error("a schedule cannot be read any more", "schedule", s.ID, "error", err)
		return nil
	}
	if now := s.Rearm(timing); now.NextAt.Equal(s.NextAt) {
		return nil
	}
	return e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s, err := effect.HeldSchedule(tx, "", s.ID)
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return tx.PutSchedule(s.Rearm(timing), store.ScheduleCaps{})
	})
}

// keepTime fires what is due, until ctx ends or the store is broken.
func (e *Engine) keepTime(ctx context.Context) error {
	nap := time.NewTimer(0)
	defer nap.Stop()
	var next time.Time // by the wall clock; zero: nothing that this engine knows of
	looked := false
	for {
		if !looked || !next.IsZero() && !time.Now().Before(next) {
			var err error
			next, err = e.fireDue(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case store.Broken(err), errors.Is(err, perdure.Lost):
				return err
			case err != nil:
				e.cfg.Log.Warn("schedules were not looked at, and will be", "worker", e.worker.ID, "error", err)
				next = time.Now().Add(time.Second)
			}
		}
		looked = true
		nap.Stop()
		var rings <-chan time.Time
		if !next.IsZero() || e.cfg.Shared {
			wait := longestNap
			if !next.IsZero() {
				wait = min(max(time.Until(next), 0), longestNap)
			}
			nap.Reset(wait)
			rings = nap.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.time.planned:
			looked = false
		case <-rings:
			looked = !e.cfg.Shared // others may have made schedules
		}
	}
}

// dueFire is a schedule of which something is to be done.
type dueFire struct {
	s    perdure.Schedule
	step perdure.ScheduleStep
}

// fireDue does one thing of each schedule that is due: those that are on time first, then the late ones, the oldest first, so
// many that no more than CatchupParallel of them are at work (SC20). It returns when to look again.
func (e *Engine) fireDue(ctx context.Context) (next time.Time, err error) {
	for {
		found, err := e.look(ctx)
		if err != nil {
			return found.next, err
		}
		for _, id := range found.stop {
			if _, err := e.CancelTask(ctx, id, "schedule", "replaced by the next fire"); err != nil {
				return found.next, err
			}
		}
		late := found.late[:min(len(found.late), e.cfg.CatchupParallel-len(e.time.late))]
		if len(found.onTime)+len(late) == 0 {
			return found.next, nil
		}
		if err := e.fireAll(ctx, append(found.onTime, late...)); err != nil {
			return found.next, err
		}
	}
}

// dueNow is what a look found.
type dueNow struct {
	onTime, late []dueFire
	stop         []perdure.TaskID // former fires that are to be replaced
	next         time.Time        // when to look again; zero: there is nothing to come
}

// look finds what is due, and when the next thing is. What is late is only looked for while some of it may begin.
func (e *Engine) look(ctx context.Context) (found dueNow, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		found = dueNow{}
		if err := e.forgetEnded(r); err != nil {
			return err
		}
		grace := r.Now().Add(-e.cfg.Schedules.Grace)
		if err := e.lookBetween(r, grace, r.Now().AddDate(100, 0, 0), &found); err != nil {
			return err
		}
		if len(e.time.late) >= e.cfg.CatchupParallel {
			found.next = earlier(found.next, time.Now().Add(shortestNap))
			return nil
		}
		return e.lookBetween(r, time.Time{}, grace, &found)
	})
	return found, err
}

// lookBetween adds what is due after a moment and by another one: a page, or more where all of one only waits.
func (e *Engine) lookBetween(r store.Reader, after, by time.Time, found *dueNow) error {
	offset := time.Since(r.Now()) // between the store's clock and this machine's
	seen := 0
	for limit := duePage; ; limit *= 2 {
		page, err := r.DueSchedules(after, by, limit)
		if err != nil {
			return err
		}
		does := false
		for _, s := range page[min(seen, len(page)):] {
			if s.DueAt().After(r.Now()) {
				found.next = earlier(found.next, s.DueAt().Add(offset))
				return nil
			}
			d, err := e.stepOf(r, s)
			if err != nil {
				return err
			}
			does = does || d.step.Outcome != ""
			e.sortOut(r, d, offset, found)
		}
		if seen = len(page); seen < limit || does {
			return nil
		}
	}
}

// sortOut notes what is to be done about one schedule.
func (e *Engine) sortOut(r store.Reader, d dueFire, offset time.Duration, found *dueNow) {
	switch {
	case d.step.Late && d.step.Outcome == perdure.Fired:
		found.late = append(found.late, d)
	case d.step.Outcome != "":
		found.onTime = append(found.onTime, d)
	default: // it is held until the former one ends
		found.next = earlier(found.next, time.Now().Add(shortestNap))
		if d.s.NextAt.After(r.Now()) {
			found.next = earlier(found.next, d.s.NextAt.Add(offset))
		}
		if id, ok := e.toReplace(r, d.s); ok {
			found.stop = append(found.stop, id)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// stepOf is what a schedule would do now. One that cannot be read does nothing.
func (e *Engine) stepOf(r store.Reader, s perdure.Schedule) (dueFire, error) {
	d := dueFire{s: s}
	timing, err := timingOf(s)
	if err != nil {
		e.cfg.Log.Error("a schedule cannot be read any more", "schedule", s.ID, "error", err)
		return d, nil
	}
	busy, _, err := former(r, s)
	if err == nil {
		d.step, err = withheld(r, s, s.Step(timing, r.Now(), busy, e.cfg.Schedules))
	}
	return d, err
}

// withheld is a step, or the skip that it is in a session which is paused (SC21).
func withheld(r store.Reader, s perdure.Schedule, step perdure.ScheduleStep) (perdure.ScheduleStep, error) {
	if step.Outcome != perdure.Fired {
		return step, nil
	}
	row, err := r.Session(s.Session)
	if errors.Is(err, perdure.NotFound) { // it is being deleted
		return step, nil
	}
	if err == nil && row.Status == perdure.SessionPaused {
		step = s.Withheld(step, "its session is paused: it may not spend anything until it is resumed")
	}
	return step, err
}

// toReplace returns the task of the former fire that is to make room, unless it was told to.
func (e *Engine) toReplace(r store.Reader, s perdure.Schedule) (perdure.TaskID, bool) {
	if s.Overlap != perdure.OverlapReplace || s.Waiting.IsZero() {
		return "", false
	}
	f, err := r.Fire(s.ID, s.LastFire)
	if err != nil || f.Task == "" {
		return "", false
	}
	t, err := r.Task("", f.Task)
	return t.ID, err == nil && t.State.Live() && !t.CancelRequested()
}

// forgetEnded forgets the late fires that are not at work any more, and those that only wait for somebody: they would keep all
// others waiting with them.
func (e *Engine) forgetEnded(r store.Reader) error {
	for id, f := range e.time.late {
		busy, _, err := atWork(r, f)
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		if busy {
			waits, err := forSomebody(r, f)
			if err != nil {
				return err
			}
			busy = !waits
		}
		if !busy {
			delete(e.time.late, id)
		}
	}
	return nil
}

// fireAll fires schedules, several at once, so that their commits share a sync.
func (e *Engine) fireAll(ctx context.Context, all []dueFire) error {
	errs, places := make([]error, len(all)), make(chan struct{}, firesAtOnce) // one for each commit at once
	fires := make([]perdure.Fire, len(all))
	var group sync.WaitGroup
	for i, d := range all {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			fires[i], errs[i] = e.fire(ctx, d.s, d.step, func(r store.Reader, s perdure.Schedule, _ time.Time) (perdure.ScheduleStep, error) {
				now, err := e.stepOf(r, s)
				return now.step, err
			})
		})
	}
	group.Wait()
	for i, d := range all {
		if d.step.Late && fires[i].Outcome == perdure.Fired {
			e.time.late[d.s.ID] = fires[i]
		}
	}
	return errors.Join(errs...)
}

// fire does what a step says, in one commit (SC15): the row of its nominal time, what comes next, the task or message, and the
// events. again says in the commit what the step is now: if it is another one, nothing is done.
func (e *Engine) fire(ctx context.Context, s perdure.Schedule, want perdure.ScheduleStep, again func(store.Reader, perdure.Schedule, time.Time) (perdure.ScheduleStep, error)) (fire perdure.Fire, err error) {
	var run *effect.Scheduled
	if want.Outcome == perdure.Fired && s.Action.Tool != "" {
		if run, err = e.effects.PlanScheduled(ctx, s, want.Nominal); err != nil {
			if errors.Is(err, perdure.NotFound) {
				return fire, nil // its session was deleted
			}
			return fire, err
		}
	}
	err = e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		fire = perdure.Fire{}
		if run != nil {
			run.Forget() // an earlier run of this transaction was undone
			if err := e.fence(tx); err != nil {
				return err
			}
		}
		now, err := effect.HeldSchedule(tx, "", s.ID)
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		step, err := again(tx, now, tx.Now())
		if err != nil || step.Outcome != want.Outcome || !step.Nominal.Equal(want.Nominal) {
			return err
		}
		fire, err = e.fireIn(tx, now, step, run)
		return err
	})
	if run != nil && !e.effects.Started(ctx, run, err) && err == nil {
		e.cfg.Log.Debug("a fire began nothing", "schedule", s.ID, "nominal", want.Nominal)
	}
	e.wake(s.Session)
	if err != nil {
		return fire, fmt.Errorf("fire schedule %s for %s: %w", s.ID, want.Nominal.Format(time.RFC3339), err)
	}
	return fire, nil
}

// fence keeps a worker whose lease has passed from claiming a run that others would take from it at once (TK8).
func (e *Engine) fence(tx store.Tx) error {
	if !e.cfg.Shared {
		return nil
	}
	return e.effects.LeaseHolds(tx)
}

// fireIn is the commit of fire.
func (e *Engine) fireIn(tx store.Tx, s perdure.Schedule, step perdure.ScheduleStep, run *effect.Scheduled) (perdure.Fire, error) {
	fire := perdure.Fire{
		Schedule: s.ID, Session: s.Session, Nominal: step.Nominal, Actual: tx.Now(), Outcome: step.Outcome, Reason: step.Reason, Counted: step.Counted,
	}
	next := step.Schedule
	next.UpdatedAt = tx.Now()
	known, err := tx.Fire(s.ID, step.Nominal)
	there := err == nil
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return fire, err
	}
	if there && known.Outcome == perdure.Fired { // the clock or the zone went back: never twice (SC18)
		return known, tx.PutSchedule(next, store.ScheduleCaps{})
	}
	if step.Outcome == perdure.Fired {
		if next, err = e.countFormer(tx, s, next); err != nil {
			return fire, err
		}
		if !next.Enabled && s.Enabled && s.Cron != "" && next.Paused != "" { // too many failed just now
			return perdure.Fire{}, tx.PutSchedule(next, store.ScheduleCaps{})
		}
	}
	if err := tx.PutSchedule(next, store.ScheduleCaps{}); err != nil {
		return fire, err
	}
	if step.Outcome == perdure.Fired {
		if fire, err = e.enact(tx, next, fire, run); err != nil {
			return fire, err
		}
		if fire.Outcome == perdure.SkippedBudget {
			step.Schedule = next
			next = s.Withheld(step, fire.Reason).Schedule
			if err := tx.PutSchedule(next, store.ScheduleCaps{}); err != nil {
				return fire, err
			}
		}
	}
	fact := perdure.Fact(perdure.ScheduleSkipped{Fire: fire})
	if fire.Outcome == perdure.Fired {
		fact = perdure.ScheduleFired{Fire: fire}
	}
	err = e.append(tx, s.Session, perdure.Event{Actor: "schedule", Task: fire.Task, Fact: fact})
	if there {
		err = errors.Join(err, tx.ChangeFire(fire))
	} else if err == nil {
		err = tx.AddFire(fire)
	}
	if err == nil && next.Type() == "oneshot" && !next.Enabled && fire.Outcome != perdure.Fired {
		err = e.effects.CloseMonitor(tx, next, cmp.Or(fire.Reason, string(fire.Outcome)))
	}
	return fire, err
}

// countFormer counts the turn of the former message, which tells nobody of its end (SC17).
func (e *Engine) countFormer(tx store.Tx, s, next perdure.Schedule) (perdure.Schedule, error) {
	if s.Action.Message == "" || s.LastFire.IsZero() {
		return next, nil
	}
	busy, failed, err := former(tx, s)
	if err != nil || busy {
		return next, err
	}
	return e.effects.CountFailure(tx, next, failed, !failed)
}

// enact adds the task or the message of a fire. What finds no place has failed to start; what a budget refuses is skipped (SC21).
func (e *Engine) enact(tx store.Tx, s perdure.Schedule, fire perdure.Fire, run *effect.Scheduled) (perdure.Fire, error) {
	if run != nil {
		fire.Task = run.Task
		err := e.effects.StartScheduled(tx, run)
		if !errors.Is(err, perdure.Limit) {
			return fire, err
		}
		fire.Task, fire.Outcome, fire.Reason = "", perdure.FireNotStarted, err.Error()
		if effect.Unpaid(err) {
			fire.Outcome = perdure.SkippedBudget
			return fire, nil
		}
		if s, err = e.effects.CountFailure(tx, s, true, false); err == nil {
			err = tx.PutSchedule(s, store.ScheduleCaps{})
		}
		return fire, err
	}
	message := perdure.Text(s.Action.Message)
	message.ID, message.At = effect.NewMessageID(), tx.Now()
	key := string(s.ID) + "@" + fire.Nominal.UTC().Format(time.RFC3339Nano)
	fact := perdure.MessageReceived{Message: message, Mode: perdure.ModeQueue, Source: "schedule", Key: key}
	err := e.append(tx, s.Session, perdure.Event{Actor: "schedule", Fact: fact})
	if err != nil {
		return fire, err
	}
	row, err := tx.Session(s.Session)
	fire.Message, fire.Seq = message.ID, row.LastSeq
	return fire, err
}
