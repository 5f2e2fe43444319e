package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/schedule"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// Timekeeper fires the schedules whose time has come. One goroutine at a time uses it.
type Timekeeper struct {
	e    *Host
	late map[perdure.ScheduleID]perdure.Fire // late fires that may be running (SC20)
}

// Timekeeper returns what fires schedules.
func (e *Host) Timekeeper() *Timekeeper { return e.timekeeper }

// Rearm recomputes the next fire of every schedule, because the time zone data may have changed
// (SC12).
func (tk *Timekeeper) Rearm(ctx context.Context) error {
	var last perdure.ScheduleID
	for {
		page, err := store.Read(ctx, tk.e.cfg.Store, func(r store.Reader) ([]perdure.Schedule, error) {
			return r.Schedules().List(store.ScheduleFilter{After: last, Limit: zoneCheckPage})
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, s := range page {
			if err := tk.rearmOne(ctx, s); err != nil {
				return err
			}
		}
		last = page[len(page)-1].ID
	}
}

func (tk *Timekeeper) rearmOne(ctx context.Context, s perdure.Schedule) error {
	if !s.Enabled {
		return nil
	}
	timing, err := timingOf(s)
	if err != nil {
		tk.e.cfg.Log.Error("invalid schedule", "schedule", s.ID, "error", err)
		return nil
	}
	if now := s.Rearm(timing); now.NextAt.Equal(s.NextAt) {
		return nil
	}
	return tk.e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		s, err := taskrecord.LockSchedule(tx, "", s.ID)
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return tx.Schedules().Put(s.Rearm(timing), store.ScheduleCaps{})
	})
}

// dueFire is a schedule with the step that is due.
type dueFire struct {
	s    perdure.Schedule
	step perdure.ScheduleStep
}

// FireDue takes one step of each due schedule: first those on time, then the late ones, oldest
// first. At most CatchupParallel late fires run at once (SC20). It repeats until nothing is due,
// and returns the time of the next check by this machine's clock; zero: nothing is planned. One
// goroutine at a time calls it.
func (tk *Timekeeper) FireDue(ctx context.Context) (next time.Time, err error) {
	for {
		found, err := tk.findDue(ctx)
		if err != nil {
			return found.next, err
		}
		for _, id := range found.stop {
			if _, err := tk.e.Tasks().Cancel(ctx, id, "schedule", "replaced by the next fire"); err != nil {
				return found.next, err
			}
		}
		late := found.late[:min(len(found.late), tk.e.cfg.Timekeeping.CatchupParallel-len(tk.late))]
		if len(found.onTime)+len(late) == 0 {
			return found.next, nil
		}
		if err := tk.fireAll(ctx, append(found.onTime, late...)); err != nil {
			return found.next, err
		}
	}
}

// dueNow is the result of findDue.
type dueNow struct {
	onTime, late []dueFire
	stop         []perdure.TaskID // tasks of previous fires to replace
	next         time.Time        // the next check; zero: nothing is planned
}

// findDue finds the due schedules and the time of the next one. It includes late ones only while
// another late fire may run.
func (tk *Timekeeper) findDue(ctx context.Context) (found dueNow, err error) {
	err = tk.e.view(ctx, func(r store.Reader) error {
		found = dueNow{}
		if err := tk.dropEndedLate(r); err != nil {
			return err
		}
		grace := r.Now().Add(-tk.e.cfg.Timekeeping.Schedules.Grace)
		if err := tk.findDueBetween(r, grace, r.Now().AddDate(100, 0, 0), &found); err != nil {
			return err
		}
		if len(tk.late) >= tk.e.cfg.Timekeeping.CatchupParallel {
			found.next = earlier(found.next, time.Now().Add(minTimerWait))
			return nil
		}
		return tk.findDueBetween(r, time.Time{}, grace, &found)
	})
	return found, err
}

// findDueBetween adds the schedules due in (after, by]. It reads one page, or more pages as long as
// every schedule read only waits.
func (tk *Timekeeper) findDueBetween(r store.Reader, after, by time.Time, found *dueNow) error {
	offset := time.Since(r.Now()) // between the store's clock and this machine's
	seen := 0
	for limit := duePage; ; limit *= 2 {
		page, err := r.Schedules().Due(after, by, limit)
		if err != nil {
			return err
		}
		does := false
		for _, s := range page[min(seen, len(page)):] {
			if s.DueAt().After(r.Now()) {
				found.next = earlier(found.next, s.DueAt().Add(offset))
				return nil
			}
			d, err := tk.stepOf(r, s)
			if err != nil {
				return err
			}
			does = does || d.step.Outcome != ""
			tk.addDue(r, d, offset, found)
		}
		if seen = len(page); seen < limit || does {
			return nil
		}
	}
}

// addDue adds one schedule to the result of findDue.
func (tk *Timekeeper) addDue(r store.Reader, d dueFire, offset time.Duration, found *dueNow) {
	switch {
	case d.step.Late && d.step.Outcome == perdure.Fired:
		found.late = append(found.late, d)
	case d.step.Outcome != "":
		found.onTime = append(found.onTime, d)
	default: // waits for the end of the previous fire
		found.next = earlier(found.next, time.Now().Add(minTimerWait))
		if d.s.NextAt.After(r.Now()) {
			found.next = earlier(found.next, d.s.NextAt.Add(offset))
		}
		if id, ok := tk.taskToReplace(r, d.s); ok {
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

// stepOf computes the current step of a schedule. An invalid schedule has none.
func (tk *Timekeeper) stepOf(r store.Reader, s perdure.Schedule) (dueFire, error) {
	d := dueFire{s: s}
	timing, err := timingOf(s)
	if err != nil {
		tk.e.cfg.Log.Error("invalid schedule", "schedule", s.ID, "error", err)
		return d, nil
	}
	busy, _, err := previousFire(r, s)
	if err == nil {
		d.step, err = tk.skipIfPaused(r, s, s.Step(timing, r.Now(), busy, tk.e.cfg.Timekeeping.Schedules))
	}
	return d, err
}

// taskToReplace returns the task of the previous fire that has to end for the next one, unless its
// cancel is requested already.
func (tk *Timekeeper) taskToReplace(r store.Reader, s perdure.Schedule) (perdure.TaskID, bool) {
	if s.Overlap != perdure.OverlapReplace || s.QueuedNominal.IsZero() {
		return "", false
	}
	f, err := r.Schedules().Fire(s.ID, s.LastFire)
	if err != nil || f.Task == "" {
		return "", false
	}
	t, err := r.Tasks().Get("", f.Task)
	return t.ID, err == nil && t.State.Live() && !t.CancelRequested()
}

// dropEndedLate drops the late fires that have ended. It also drops those that only wait for a
// person, because they would block all other late fires.
func (tk *Timekeeper) dropEndedLate(r store.Reader) error {
	for id, f := range tk.late {
		busy, _, err := fireStatus(r, f)
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		if busy {
			waits, err := waitsForPerson(r, f)
			if err != nil {
				return err
			}
			busy = !waits
		}
		if !busy {
			delete(tk.late, id)
		}
	}
	return nil
}

// fireAll fires schedules concurrently, so that their commits share a sync.
func (tk *Timekeeper) fireAll(ctx context.Context, all []dueFire) error {
	errs, places := make([]error, len(all)), make(chan struct{}, firesAtOnce) // capacity: commits at once
	fires := make([]perdure.Fire, len(all))
	var group sync.WaitGroup
	for i, d := range all {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			again := func(r store.Reader, s perdure.Schedule, _ time.Time) (perdure.ScheduleStep, error) {
				now, err := tk.stepOf(r, s)
				return now.step, err
			}
			fires[i], errs[i] = tk.fire(ctx, d.s, d.step, again)
		})
	}
	group.Wait()
	for i, d := range all {
		if d.step.Late && fires[i].Outcome == perdure.Fired {
			tk.late[d.s.ID] = fires[i]
		}
	}
	return errors.Join(errs...)
}

// fire takes a step in one commit (SC15): the row of the nominal time, the next fire, the task or
// message, and the events. again recomputes the step within the commit; if it differs from want,
// fire does nothing.
func (tk *Timekeeper) fire(
	ctx context.Context, s perdure.Schedule, want perdure.ScheduleStep,
	again func(store.Reader, perdure.Schedule, time.Time) (perdure.ScheduleStep, error),
) (fire perdure.Fire, err error) {
	var run *schedule.Run
	if want.Outcome == perdure.Fired && s.Action.Tool != "" {
		if run, err = tk.e.effects.Schedules().Plan(ctx, s, want.Nominal); err != nil {
			if errors.Is(err, perdure.NotFound) {
				return fire, nil // the session was deleted
			}
			return fire, err
		}
	}
	err = tk.e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		fire = perdure.Fire{}
		if run != nil {
			run.Reset() // undoes an earlier run of this transaction
			if err := tk.e.Fence(tx.Reader()); err != nil {
				return err
			}
		}
		now, err := taskrecord.LockSchedule(tx, "", s.ID)
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		step, err := again(tx.Reader(), now, tx.Now())
		if err != nil || step.Outcome != want.Outcome || !step.Nominal.Equal(want.Nominal) {
			return err
		}
		fire, err = tk.fireIn(tx, now, step, run)
		return err
	})
	if run != nil && !tk.e.effects.Schedules().AfterCommit(ctx, run, err) && err == nil {
		tk.e.cfg.Log.Debug("fire started nothing", "schedule", s.ID, "nominal", want.Nominal)
	}
	tk.e.scheduler.Wake(s.Session)
	if err != nil {
		return fire, fmt.Errorf("fire schedule %s for %s: %w", s.ID, want.Nominal.Format(time.RFC3339), err)
	}
	return fire, nil
}

// fireIn is the transaction of fire.
func (tk *Timekeeper) fireIn(
	tx store.Tx, s perdure.Schedule, step perdure.ScheduleStep, run *schedule.Run,
) (perdure.Fire, error) {
	fire := perdure.Fire{
		Schedule: s.ID, Session: s.Session, Nominal: step.Nominal, Actual: tx.Now(),
		Outcome: step.Outcome, Reason: step.Reason, Merged: step.Merged,
	}
	next := step.Schedule
	next.UpdatedAt = tx.Now()
	known, err := tx.Schedules().Fire(s.ID, step.Nominal)
	there := err == nil
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return fire, err
	}
	if there && known.Outcome == perdure.Fired { // the clock or the zone moved back: never fire twice (SC18)
		return known, tx.Schedules().Put(next, store.ScheduleCaps{})
	}
	if step.Outcome == perdure.Fired {
		if next, err = tk.countPreviousFire(tx, s, next); err != nil {
			return fire, err
		}
		if !next.Enabled && s.Enabled && s.Cron != "" && next.Paused != "" { // this failure was one too many
			return perdure.Fire{}, tx.Schedules().Put(next, store.ScheduleCaps{})
		}
	}
	if err := tx.Schedules().Put(next, store.ScheduleCaps{}); err != nil {
		return fire, err
	}
	if step.Outcome == perdure.Fired {
		if fire, err = tk.startFire(tx, next, fire, run); err != nil {
			return fire, err
		}
		if fire.Outcome == perdure.SkippedBudget {
			step.Schedule = next
			next = s.SkippedForBudget(step, fire.Reason).Schedule
			if err := tx.Schedules().Put(next, store.ScheduleCaps{}); err != nil {
				return fire, err
			}
		}
	}
	fact := perdure.Fact(perdure.ScheduleSkipped{Fire: fire})
	if fire.Outcome == perdure.Fired {
		fact = perdure.ScheduleFired{Fire: fire}
	}
	err = tk.e.append(tx, s.Session, perdure.Event{Actor: "schedule", Task: fire.Task, Fact: fact})
	if there {
		err = errors.Join(err, tx.Schedules().UpdateFire(fire))
	} else if err == nil {
		err = tx.Schedules().AddFire(fire)
	}
	if err == nil && next.Type() == "oneshot" && !next.Enabled && fire.Outcome != perdure.Fired {
		err = tk.e.effects.Records().CloseMonitor(tx, next, cmp.Or(fire.Reason, string(fire.Outcome)))
	}
	return fire, err
}

// countPreviousFire counts the result of the previous fire's turn, because no task reports its end
// (SC17).
func (tk *Timekeeper) countPreviousFire(tx store.Tx, s, next perdure.Schedule) (perdure.Schedule, error) {
	if s.Action.Message == "" || s.LastFire.IsZero() {
		return next, nil
	}
	busy, failed, err := previousFire(tx.Reader(), s)
	if err != nil || busy {
		return next, err
	}
	return tk.e.effects.Records().CountFailure(tx, next, failed, !failed)
}

// startFire adds the task or the message of a fire. A fire without a free slot counts as failed; a
// fire refused by a budget is skipped (SC21).
func (tk *Timekeeper) startFire(
	tx store.Tx, s perdure.Schedule, fire perdure.Fire, run *schedule.Run,
) (perdure.Fire, error) {
	if run != nil {
		fire.Task = run.Task
		err := tk.e.effects.Schedules().Start(tx, run)
		if why, refused := taskrecord.BudgetRefused(err); refused {
			fire.Task, fire.Outcome, fire.Reason = "", perdure.SkippedBudget, why
			return fire, nil
		}
		if !errors.Is(err, perdure.Limit) {
			return fire, err
		}
		fire.Task, fire.Outcome, fire.Reason = "", perdure.FireNotStarted, err.Error()
		if s, err = tk.e.effects.Records().CountFailure(tx, s, true, false); err == nil {
			err = tx.Schedules().Put(s, store.ScheduleCaps{})
		}
		return fire, err
	}
	message := perdure.Text(s.Action.Message)
	message.ID, message.At = core.NewMessageID(), tx.Now()
	key := string(s.ID) + "@" + fire.Nominal.UTC().Format(time.RFC3339Nano)
	fact := perdure.MessageReceived{Message: message, Mode: perdure.ModeQueue, Source: "schedule", Key: key}
	seq, err := tk.e.appendEvent(tx, s.Session, perdure.Event{Actor: "schedule", Fact: fact})
	fire.Message, fire.Seq = message.ID, seq
	return fire, err
}
