package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v scheduleStore) Get(id perdure.ScheduleID) (perdure.Schedule, error) {
	s, ok := v.schedules.get(string(id))
	if !ok {
		return perdure.Schedule{}, fmt.Errorf("schedule %s: %w", id, perdure.NotFound)
	}
	return stored(s)
}

// List lists schedules in the order of their ids.
func (v scheduleStore) List(filter store.ScheduleFilter) (found []perdure.Schedule, err error) {
	for key, s := range v.schedules.from(string(filter.After)) {
		if key == string(filter.After) || filter.Session != "" && filter.Session != s.Session {
			continue
		}
		if filter.Limit > 0 && len(found) == filter.Limit {
			break
		}
		copied, err := stored(s)
		if err != nil {
			return nil, err
		}
		found = append(found, copied)
	}
	return found, nil
}

// Due lists the due schedules, the longest due first.
func (v scheduleStore) Due(after, by time.Time, limit int) ([]perdure.Schedule, error) {
	var found []perdure.Schedule
	begin := ""
	if !after.IsZero() {
		begin = dueKey(micro(after), "\xff")
	}
	for key, id := range v.dueSchedules.from(begin) {
		if key > dueKey(micro(by), "\xff") {
			break
		}
		if limit > 0 && len(found) == limit {
			break
		}
		s, err := v.Schedules().Get(id)
		if err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

// dueKey orders schedules by due time. No due time is before 1970.
func dueKey(at time.Time, id perdure.ScheduleID) string {
	return fmt.Sprintf("%020d %s", max(at.UnixMicro(), 0), id)
}

func (v scheduleStore) Fire(id perdure.ScheduleID, nominal time.Time) (perdure.Fire, error) {
	f, ok := v.fires.get(fireKey(id, nominal))
	if !ok {
		return perdure.Fire{}, fmt.Errorf("fire of %s at %s: %w", id, nominal, perdure.NotFound)
	}
	return f, nil
}

// Fires lists the fires of a schedule, the latest first.
func (v scheduleStore) Fires(id perdure.ScheduleID, limit int) (found []perdure.Fire, err error) {
	for _, f := range v.fires.from(string(id)) {
		if f.Schedule > id {
			break
		}
		if f.Schedule == id {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b perdure.Fire) int {
		return cmp.Compare(b.Nominal.UnixMicro(), a.Nominal.UnixMicro())
	})
	return first(found, limit), nil
}

func fireKey(id perdure.ScheduleID, nominal time.Time) string {
	return fmt.Sprintf("%s %d", id, micro(nominal).UnixMicro())
}

// Put adds a schedule, or replaces the one with its id.
func (t scheduleStore) Put(s perdure.Schedule, caps store.ScheduleCaps) error {
	err := store.CheckSchedule(s)
	known, _ := t.schedules.get(string(s.ID))
	if err == nil && s.Enabled && !known.Enabled {
		err = caps.Check(t.enabled(s.Session, caps))
	}
	if err == nil {
		s, err = stored(inMicros(s))
	}
	if err != nil {
		return fmt.Errorf("put schedule %s: %w", s.ID, err)
	}
	t.unqueue(known)
	t.schedules = t.schedules.put(string(s.ID), s)
	if due := s.DueAt(); !due.IsZero() {
		t.dueSchedules = t.dueSchedules.put(dueKey(due, s.ID), s.ID)
	}
	return nil
}

// inMicros truncates the times of a schedule to microseconds.
func inMicros(s perdure.Schedule) perdure.Schedule {
	for _, at := range []*time.Time{&s.At, &s.NextAt, &s.Nominal, &s.QueuedNominal, &s.DecidedUntil, &s.LastAt, &s.LastFire,
		&s.CreatedAt, &s.UpdatedAt} {
		*at = micro(*at)
	}
	return s
}

// unqueue removes a schedule from the order of due times.
func (t *tx) unqueue(s perdure.Schedule) {
	if due := s.DueAt(); !due.IsZero() {
		t.dueSchedules = t.dueSchedules.remove(dueKey(due, s.ID))
	}
}

// enabled counts enabled schedules, unless caps are unlimited.
func (v *tx) enabled(id perdure.SessionID, caps store.ScheduleCaps) (ofSession, ofOrg int) {
	if caps == (store.ScheduleCaps{}) {
		return 0, 0
	}
	own, _ := v.sessions.get(string(id))
	for _, s := range v.schedules.from("") {
		if of, _ := v.sessions.get(string(s.Session)); !s.Enabled || of.Org != own.Org {
			continue
		}
		ofOrg++
		if s.Session == id {
			ofSession++
		}
	}
	return ofSession, ofOrg
}

// Remove removes a schedule with its fires.
func (t scheduleStore) Remove(id perdure.ScheduleID) (bool, error) {
	s, there := t.schedules.get(string(id))
	if !there {
		return false, nil
	}
	t.unqueue(s)
	t.schedules = t.schedules.remove(string(id))
	t.fires = without(t.fires, func(f perdure.Fire) bool { return f.Schedule == id })
	return true, nil
}

func (t scheduleStore) AddFire(f perdure.Fire) error {
	if t.fires.has(fireKey(f.Schedule, f.Nominal)) {
		return fmt.Errorf("fire of %s at %s: %w", f.Schedule, f.Nominal, perdure.Conflict)
	}
	t.putFire(f)
	return nil
}

func (t scheduleStore) UpdateFire(f perdure.Fire) error {
	if !t.fires.has(fireKey(f.Schedule, f.Nominal)) {
		return fmt.Errorf("fire of %s at %s: %w", f.Schedule, f.Nominal, perdure.NotFound)
	}
	t.putFire(f)
	return nil
}

func (t *tx) putFire(f perdure.Fire) {
	f.Nominal, f.Actual = micro(f.Nominal), micro(f.Actual)
	t.fires = t.fires.put(fireKey(f.Schedule, f.Nominal), f)
}

// removeSchedules removes the schedules of a session.
func (t *tx) removeSchedules(id perdure.SessionID) {
	for _, s := range t.schedules.from("") { // iterates over the tree as it was before
		if s.Session == id {
			t.unqueue(s)
			t.schedules = t.schedules.remove(string(s.ID))
		}
	}
	t.fires = without(t.fires, func(f perdure.Fire) bool { return f.Session == id })
}

// dumpSchedules returns the schedules of a session with their fires, by schedule and nominal time.
func (v *tx) dumpSchedules(d *store.SessionDump) (err error) {
	if d.Schedules, err = v.Schedules().List(store.ScheduleFilter{Session: d.Session.ID}); err != nil {
		return err
	}
	for _, s := range d.Schedules {
		fires, err := v.Schedules().Fires(s.ID, 0)
		if err != nil {
			return err
		}
		slices.Reverse(fires)
		d.Fires = append(d.Fires, fires...)
	}
	return nil
}

// restoreSchedules writes the schedules of a dump.
func (t *tx) restoreSchedules(d store.SessionDump) error {
	for _, s := range d.Schedules {
		if t.schedules.has(string(s.ID)) {
			return fmt.Errorf("%w: schedule %s exists", perdure.Conflict, s.ID)
		}
		if err := t.Schedules().Put(s, store.ScheduleCaps{}); err != nil {
			return err
		}
	}
	for _, f := range d.Fires {
		if err := t.Schedules().AddFire(f); err != nil {
			return err
		}
	}
	return nil
}
