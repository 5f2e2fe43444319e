package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func scheduleLaws() []law {
	return []law{
		{"keeps_every_field", scheduleFields},
		{"is_unknown_without_a_row", scheduleUnknown},
		{"lists_in_the_order_of_their_making", scheduleLists},
		{"lists_what_is_due", scheduleDue},
		{"fires_a_nominal_time_once", fireOnce},
		{"lets_one_of_many_fire", fireRace},
		{"keeps_every_field_of_a_fire", fireFields},
		{"lists_fires_from_the_latest", fireLists},
		{"counts_in_the_commit_that_creates", scheduleCaps},
		{"keeps_its_caps_under_concurrency", scheduleCapRace},
		{"goes_with_its_session", scheduleGoes},
		{"goes_with_its_fires", scheduleRemoved},
		{"goes_with_its_transaction", scheduleAndFail},
		{"gives_out_copies", scheduleCopies},
		{"refuses_what_is_none", scheduleThatIsNone},
		{"counts_monitors_apart", monitorsApart},
		{"does_not_keep_a_session_for_a_monitor", monitorGoes},
		{"survives_reopening", scheduleSurvives},
	}
}

// newSchedule returns a schedule with every field set, which is due at a moment.
func (s *subject) newSchedule(session perdure.SessionID, due time.Time) perdure.Schedule {
	sched := filled[perdure.Schedule]()
	sched.ID, sched.Session, sched.QueuedNominal, sched.NextAt = mint[perdure.ScheduleID](s), session, time.Time{}, due
	return sched
}

// newFire returns a fire with every field set.
func newFire(of perdure.Schedule, nominal time.Time) perdure.Fire {
	f := filled[perdure.Fire]()
	f.Schedule, f.Session, f.Nominal = of.ID, of.Session, nominal
	return f
}

// plan puts schedules without a cap, and returns the last one.
func (s *subject) plan(all ...perdure.Schedule) perdure.Schedule {
	s.Helper()
	s.write(func(tx store.Tx) error {
		for _, sched := range all {
			if err := tx.Schedules().Put(sched, store.ScheduleCaps{}); err != nil {
				return err
			}
		}
		return nil
	})
	return all[len(all)-1]
}

func (s *subject) schedules(filter store.ScheduleFilter) (found []perdure.Schedule) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Schedules().List(filter)
		return err
	})
	return found
}

func (s *subject) due(by time.Time, limit int) (found []perdure.Schedule) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Schedules().Due(time.Time{}, by, limit)
		return err
	})
	return found
}

func (s *subject) fires(id perdure.ScheduleID, limit int) (found []perdure.Fire) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Schedules().Fires(id, limit)
		return err
	})
	return found
}

func scheduleFields(s *subject) {
	want := s.plan(s.newSchedule(s.session(), moment(5)))
	for range 2 {
		s.read(func(r store.Reader) error {
			got, err := r.Schedules().Get(want.ID)
			s.same("schedule", got, want)
			return err
		})
		want.Title, want.Enabled, want.Count, want.NextAt = "another", false, 7, moment(9)
		s.plan(want)
	}
}

func scheduleUnknown(s *subject) {
	known := s.plan(s.newSchedule(s.session(), moment(1)))
	s.unknown(func(r store.Reader) error { _, err := r.Schedules().Get(mint[perdure.ScheduleID](s)); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Schedules().Get(""); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Schedules().Fire(known.ID, moment(1)); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Schedules().UpdateFire(newFire(known, moment(1))) })
	s.same("fires", s.fires(known.ID, 0), []perdure.Fire(nil))
	s.write(func(tx store.Tx) error {
		there, err := tx.Schedules().Remove(mint[perdure.ScheduleID](s))
		s.same("whether it was there", there, false)
		return err
	})
}

func scheduleLists(s *subject) {
	one, other := s.session(), s.session()
	var all []perdure.Schedule
	for i := range 6 {
		all = append(all, s.newSchedule([]perdure.SessionID{one, other}[i%2], moment(i)))
	}
	s.plan(all[3], all[0], all[5], all[1], all[4], all[2])

	s.same("all", s.schedules(store.ScheduleFilter{}), all)
	s.same("of one", s.schedules(store.ScheduleFilter{Session: one}), []perdure.Schedule{all[0], all[2], all[4]})
	s.same("a page", s.schedules(store.ScheduleFilter{After: all[1].ID, Limit: 2}), all[2:4])
	s.same("a page of one", s.schedules(store.ScheduleFilter{Session: other, After: all[1].ID, Limit: 1}), all[3:4])
	s.same("of an unknown session", s.schedules(store.ScheduleFilter{Session: "nobody"}), []perdure.Schedule(nil))
}

func scheduleDue(s *subject) {
	session := s.session()
	late, early, paused, never, waits := s.newSchedule(session, moment(30)), s.newSchedule(session, moment(10)),
		s.newSchedule(session, moment(1)),
		s.newSchedule(session, time.Time{}), s.newSchedule(session, moment(90))
	paused.Enabled, waits.QueuedNominal = false, moment(20)
	s.plan(late, early, paused, never, waits)

	s.same("before", s.due(moment(9), 0), []perdure.Schedule(nil))
	s.same("the first", s.due(moment(10), 0), []perdure.Schedule{early})
	s.same("all", s.due(moment(99), 0), []perdure.Schedule{early, waits, late})
	s.same("a page", s.due(moment(99), 2), []perdure.Schedule{early, waits})

	s.read(func(r store.Reader) error {
		got, err := r.Schedules().Due(moment(10), moment(29), 0)
		s.same("between", got, []perdure.Schedule{waits})
		return err
	})

	early.NextAt, waits.QueuedNominal = moment(40), time.Time{}
	s.plan(early, waits)
	s.same("moved on", s.due(moment(99), 0), []perdure.Schedule{late, early, waits})
}

func fireOnce(s *subject) {
	sched := s.plan(s.newSchedule(s.session(), moment(1)))
	first := newFire(sched, moment(1))
	s.write(func(tx store.Tx) error { return tx.Schedules().AddFire(first) })

	second := first
	second.Task = "task_other"
	s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Schedules().AddFire(second) })

	s.same("fires", s.fires(sched.ID, 0), []perdure.Fire{first})
}

func fireRace(s *subject) {
	sched := s.plan(s.newSchedule(s.session(), moment(1)))

	winner := s.race(perdure.Conflict, func(i int) error {
		f := newFire(sched, moment(1))
		f.Task = perdure.TaskID(fmt.Sprint("task_", i))
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Schedules().AddFire(f) })
	})

	if got := s.fires(sched.ID, 0); len(got) != 1 || got[0].Task != perdure.TaskID(fmt.Sprint("task_", winner)) {
		s.Errorf("got %v, want that of %d", got, winner)
	}
}

func fireFields(s *subject) {
	sched := s.plan(s.newSchedule(s.session(), moment(1)))
	want := newFire(sched, moment(3))
	s.write(func(tx store.Tx) error { return tx.Schedules().AddFire(want) })
	for range 2 {
		s.read(func(r store.Reader) error {
			got, err := r.Schedules().Fire(sched.ID, moment(3))
			s.same("fire", got, want)
			return err
		})
		want.Outcome, want.Reason, want.Task, want.Actual = perdure.Fired, "", "task_9", moment(8)
		s.write(func(tx store.Tx) error { return tx.Schedules().UpdateFire(want) })
	}
}

func fireLists(s *subject) {
	sched, other := s.plan(s.newSchedule(s.session(), moment(1))), s.plan(s.newSchedule(s.session(), moment(1)))
	var all []perdure.Fire
	for i := range 5 {
		all = append(all, newFire(sched, moment(i*1000)))
	}
	s.write(func(tx store.Tx) error {
		for _, i := range []int{2, 0, 4, 1, 3} {
			if err := errors.Join(tx.Schedules().AddFire(all[i]), tx.Schedules().AddFire(newFire(other, moment(i)))); err != nil {
				return err
			}
		}
		return nil
	})
	slices.Reverse(all)

	s.same("all", s.fires(sched.ID, 0), all)
	s.same("the latest", s.fires(sched.ID, 2), all[:2])
}

func scheduleCaps(s *subject) {
	caps := store.ScheduleCaps{Session: 2, Org: 3}
	one, other := s.session(), s.session()
	put := func(sched perdure.Schedule) error {
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Schedules().Put(sched, caps) })
	}
	limited := func(sched perdure.Schedule, words string) {
		s.Helper()
		if err := put(sched); !errors.Is(err, perdure.Limit) || !strings.Contains(err.Error(), words) {
			s.Errorf("got %v, want a limit that says %q", err, words)
		}
	}
	first, second := s.newSchedule(one, moment(1)), s.newSchedule(one, moment(1))
	if err := errors.Join(put(first), put(second)); err != nil {
		s.Fatal(err)
	}

	limited(s.newSchedule(one, moment(1)), "Maximum 2 active schedules per session. Cancel an existing schedule first.")
	if err := put(s.newSchedule(other, moment(1))); err != nil {
		s.Fatal(err)
	}
	limited(s.newSchedule(other, moment(1)), "Maximum 3 active schedules per organization.")
	first.Title = "changed" // it is counted already
	if err := put(first); err != nil {
		s.Error(err)
	}
	first.Enabled = false
	if err := errors.Join(put(first), put(s.newSchedule(one, moment(1)))); err != nil {
		s.Error(err)
	}
	first.Enabled = true
	limited(first, "per session")
}

func scheduleCapRace(s *subject) {
	session := s.session()
	made := make([]bool, nParallel)
	s.together(nParallel, func(i int) error {
		sched := s.newSchedule(session, moment(1))
		err := s.InTx(s.ctx, func(tx store.Tx) error {
			return tx.Schedules().Put(sched, store.ScheduleCaps{Session: 5, Org: 100})
		})
		if made[i] = err == nil; errors.Is(err, perdure.Limit) {
			return nil
		}
		return err
	})

	n := 0
	for _, ok := range made {
		if ok {
			n++
		}
	}
	if stored := len(s.schedules(store.ScheduleFilter{Session: session})); n != 5 || stored != 5 {
		s.Errorf("got %d made and %d stored, want 5", n, stored)
	}
}

func scheduleGoes(s *subject) {
	gone, stays := s.plan(s.newSchedule(s.session(), moment(1))), s.plan(s.newSchedule(s.session(), moment(2)))
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Schedules().AddFire(newFire(gone, moment(1))), tx.Schedules().AddFire(newFire(stays, moment(1))))
	})

	s.remove(gone.Session)

	s.same("what is left", s.schedules(store.ScheduleFilter{}), []perdure.Schedule{stays})
	s.same("what is due", s.due(moment(99), 0), []perdure.Schedule{stays})
	s.same("its fires", s.fires(gone.ID, 0), []perdure.Fire(nil))
	s.same("the others", len(s.fires(stays.ID, 0)), 1)
}

func scheduleRemoved(s *subject) {
	session := s.session()
	gone, stays := s.plan(s.newSchedule(session, moment(1))), s.plan(s.newSchedule(session, moment(2)))
	s.write(func(tx store.Tx) error {
		err := errors.Join(tx.Schedules().AddFire(newFire(gone, moment(1))), tx.Schedules().AddFire(newFire(stays, moment(1))))
		there, failed := tx.Schedules().Remove(gone.ID)
		s.same("whether it was there", there, true)
		return errors.Join(err, failed)
	})

	s.same("what is left", s.schedules(store.ScheduleFilter{}), []perdure.Schedule{stays})
	s.same("what is due", s.due(moment(99), 0), []perdure.Schedule{stays})
	s.same("fires", len(s.fires(gone.ID, 0))+10*len(s.fires(stays.ID, 0)), 10)
}

func scheduleAndFail(s *subject) {
	old := s.plan(s.newSchedule(s.session(), moment(1)))
	s.refused(errOnPurpose, func(tx store.Tx) error {
		changed := old
		changed.NextAt = moment(77)
		_, err := tx.Schedules().Remove(s.plannedIn(tx, changed).ID)
		return errors.Join(tx.Schedules().AddFire(newFire(old, moment(1))), err, errOnPurpose)
	})

	s.same("what is due", s.due(moment(99), 0), []perdure.Schedule{old})
	s.same("fires", s.fires(old.ID, 0), []perdure.Fire(nil))
}

func (s *subject) plannedIn(tx store.Tx, sched perdure.Schedule) perdure.Schedule {
	s.Helper()
	if err := tx.Schedules().Put(sched, store.ScheduleCaps{}); err != nil {
		s.Error(err)
	}
	return sched
}

func scheduleCopies(s *subject) {
	given, want := s.newSchedule(s.session(), moment(1)), filled[perdure.Schedule]()
	want.ID, want.Session, want.QueuedNominal, want.NextAt = given.ID, given.Session, given.QueuedNominal, given.NextAt
	s.plan(given)

	scribble(&given)
	for _, found := range [][]perdure.Schedule{s.schedules(store.ScheduleFilter{}), s.due(moment(9), 0)} {
		scribble(&found[0])
	}

	s.same("schedule", s.schedules(store.ScheduleFilter{}), []perdure.Schedule{want})
}

func scheduleThatIsNone(s *subject) {
	for _, spoil := range []func(*perdure.Schedule){
		func(sched *perdure.Schedule) { sched.ID = "" }, func(sched *perdure.Schedule) { sched.Session = "" },
	} {
		bad := s.newSchedule(s.session(), moment(1))
		spoil(&bad)
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Schedules().Put(bad, store.ScheduleCaps{}) })
	}
}

func monitorsApart(s *subject) {
	session := s.session()
	monitor, run := s.newTask(session), s.newTask(session)
	monitor.Kind, run.Kind = perdure.KindMonitor, perdure.KindBackgroundTool
	monitor.Origin, run.Origin = perdure.OriginSpawned, perdure.OriginSchedule
	s.create(monitor)
	s.create(run)

	s.read(func(r store.Reader) error {
		got, err := r.Tasks().Count(perdure.TaskRunning, session)
		s.same("counts", got, []store.TaskCount{{Session: session, N: 2, Monitors: 1}})
		s.same("places", got[0].Slots(), 1)
		return err
	})
}

func monitorGoes(s *subject) {
	session := s.session()
	monitor := s.newTask(session)
	monitor.Kind = perdure.KindMonitor
	s.create(monitor)

	s.remove(session)

	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get("", monitor.ID); return err })
}

func scheduleSurvives(s *subject) {
	sched := s.plan(s.newSchedule(s.session(), moment(1)))
	fire := newFire(sched, moment(1))
	s.write(func(tx store.Tx) error { return tx.Schedules().AddFire(fire) })

	s.reopen()

	s.same("what is due", s.due(moment(9), 0), []perdure.Schedule{sched})
	s.same("fires", s.fires(sched.ID, 0), []perdure.Fire{fire})
	s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Schedules().AddFire(fire) })
}

// prepareSchedules adds a schedule with a fire and one to be removed.
func (s *subject) prepareSchedules(w *things) {
	s.Helper()
	w.planned, w.unplanned = s.plan(s.newSchedule(w.session, moment(1))), s.plan(s.newSchedule(w.session, moment(2)))
	w.freshPlan = s.newSchedule(w.session, moment(3))
	s.write(func(tx store.Tx) error { return tx.Schedules().AddFire(newFire(w.planned, moment(1))) })
}

// touchSchedules calls every writing method of schedules.
func (w things) touchSchedules(tx store.Tx) error {
	moved := w.planned
	moved.NextAt = moment(50)
	changed := newFire(w.planned, moment(1))
	changed.Reason = "new"
	_, gone := tx.Schedules().Remove(w.unplanned.ID)
	return errors.Join(tx.Schedules().Put(moved, store.ScheduleCaps{}),
		tx.Schedules().Put(w.freshPlan, store.ScheduleCaps{Session: 9}), gone,
		tx.Schedules().AddFire(newFire(w.planned, moment(2))), tx.Schedules().UpdateFire(changed))
}

// lookAtSchedules reads schedules, due schedules and fires.
func (w things) lookAtSchedules(r store.Reader, found *everything) (err error) {
	if found.Schedules, err = r.Schedules().List(store.ScheduleFilter{}); err != nil {
		return err
	}
	if found.Due, err = r.Schedules().Due(time.Time{}, moment(99), 0); err != nil {
		return err
	}
	found.Fires, err = r.Schedules().Fires(w.planned.ID, 0)
	return err
}
