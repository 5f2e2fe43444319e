package sqlstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of schedules. The session's row is locked before they are written.
const (
	selectSchedule  = `SELECT record FROM schedule WHERE id = $1`
	sessionOfPlan   = `SELECT session_id FROM schedule WHERE id = $1`
	listSchedules   = `SELECT record FROM schedule WHERE id > $1 ORDER BY id LIMIT $2`
	listOwnSchedule = `SELECT record FROM schedule WHERE session_id = $3 AND id > $1 ORDER BY id LIMIT $2`
	listDueSchedule = `SELECT record FROM schedule WHERE due_us <> 0 AND due_us > $1 AND due_us <= $2 ORDER BY due_us, id LIMIT $3`
	countEnabled    = `SELECT COALESCE(SUM(CASE WHEN session_id = $1 THEN 1 ELSE 0 END), 0), COUNT(*) FROM schedule WHERE enabled
		AND COALESCE((SELECT org FROM session WHERE id = schedule.session_id), '') = COALESCE((SELECT org FROM session WHERE id = $1), '')`
	putSchedule = `INSERT INTO schedule (id, session_id, enabled, due_us, record) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET enabled = excluded.enabled, due_us = excluded.due_us, record = excluded.record`
	removeSchedule = `DELETE FROM schedule WHERE id = $1`

	selectFire  = `SELECT record FROM schedule_fire WHERE schedule_id = $1 AND nominal_us = $2`
	listFires   = `SELECT record FROM schedule_fire WHERE schedule_id = $1 ORDER BY nominal_us DESC LIMIT $2`
	insertFire  = `INSERT INTO schedule_fire (schedule_id, nominal_us, session_id, record) VALUES ($1, $2, $3, $4) ON CONFLICT (schedule_id, nominal_us) DO NOTHING`
	updateFire  = `UPDATE schedule_fire SET record = $3 WHERE schedule_id = $1 AND nominal_us = $2`
	removeFires = `DELETE FROM schedule_fire WHERE schedule_id = $1`

	removeSchedules     = `DELETE FROM schedule WHERE session_id = $1`
	removeScheduleFires = `DELETE FROM schedule_fire WHERE session_id = $1`
)

// Get returns a schedule, with its session and its row locked: a transaction that reads a
// schedule is about to change it.
func (tx scheduleStore) Get(id perdure.ScheduleID) (perdure.Schedule, error) {
	var s perdure.Schedule
	err := tx.holdSchedule(id)
	if err == nil {
		s, err = one(tx.Tx, scanRecord[perdure.Schedule], tx.locked(selectSchedule), id)
	}
	return wrapped(s, err, "schedule %s", id)
}

// holdSchedule locks the session of a schedule, before its own row.
func (tx *Tx) holdSchedule(id perdure.ScheduleID) error {
	if tx.alone() {
		return nil
	}
	session, err := one(tx, name[perdure.SessionID], sessionOfPlan, id)
	if err != nil {
		return err
	}
	return tx.hold(session)
}

func (tx scheduleStore) List(filter store.ScheduleFilter) ([]perdure.Schedule, error) {
	query, args := listSchedules, []any{filter.After, orAll(filter.Limit)}
	err := tx.hold(filter.Session)
	if filter.Session != "" {
		query, args = listOwnSchedule, append(args, filter.Session)
	}
	var found []perdure.Schedule
	if err == nil {
		found, err = list(tx.Tx, scanRecord[perdure.Schedule], tx.locked(query), args...)
	}
	return wrapped(found, err, "list schedules")
}

// Due lists due schedules, the longest due first.
func (tx scheduleStore) Due(after, by time.Time, limit int) ([]perdure.Schedule, error) {
	found, err := list(tx.Tx, scanRecord[perdure.Schedule], tx.locked(listDueSchedule), micros(after), micros(by),
		orAll(limit))
	return wrapped(found, err, "list due schedules")
}

// Fire returns the fire of a nominal time. It locks the question, so that of two transactions that
// find no fire, one waits for the other.
func (tx scheduleStore) Fire(id perdure.ScheduleID, nominal time.Time) (perdure.Fire, error) {
	f, err := oneOrNone(tx.Tx, scanRecord[perdure.Fire], selectFire, id, micros(nominal))
	return wrapped(f, err, "fire of %s at %s", id, nominal)
}

// Fires lists the fires of a schedule, the latest first.
func (tx scheduleStore) Fires(id perdure.ScheduleID, limit int) ([]perdure.Fire, error) {
	found, err := list(tx.Tx, scanRecord[perdure.Fire], tx.locked(listFires), id, orAll(limit))
	return wrapped(found, err, "list the fires of %s", id)
}

// Put adds a schedule, or replaces the one with its id.
func (tx scheduleStore) Put(s perdure.Schedule, caps store.ScheduleCaps) error {
	err := store.CheckSchedule(s)
	if err == nil {
		err = tx.hold(s.Session)
	}
	if err == nil && s.Enabled && caps != (store.ScheduleCaps{}) {
		err = tx.checkCaps(s, caps)
	}
	var record []byte
	if err == nil {
		record, err = encode(inMicros(s))
	}
	if err == nil {
		_, err = tx.exec(putSchedule, s.ID, s.Session, s.Enabled, micros(s.DueAt()), record)
	}
	return wrap(err, "put schedule %s", s.ID)
}

// checkCaps checks the limits for a schedule that becomes enabled. The lock lets one transaction
// count at a time.
func (tx *Tx) checkCaps(s perdure.Schedule, caps store.ScheduleCaps) error {
	known, err := one(tx, scanRecord[perdure.Schedule], tx.locked(selectSchedule), s.ID)
	if err == nil && known.Enabled {
		return nil
	}
	if err != nil && !missing(err) {
		return err
	}
	if err := tx.lock("schedules", false); err != nil {
		return err
	}
	counts, err := one(tx, scanCounts, countEnabled, s.Session)
	if err != nil {
		return err
	}
	return caps.Check(counts[0], counts[1])
}

func scanCounts(r row) (n [2]int, err error) {
	err = r.Scan(&n[0], &n[1])
	return n, err
}

// inMicros truncates the times of a schedule to microseconds.
func inMicros(s perdure.Schedule) perdure.Schedule {
	for _, at := range []*time.Time{&s.At, &s.NextAt, &s.Nominal, &s.QueuedNominal, &s.DecidedUntil, &s.LastAt, &s.LastFire,
		&s.CreatedAt, &s.UpdatedAt} {
		*at = micro(*at)
	}
	return s
}

// Remove removes a schedule with its fires.
func (tx scheduleStore) Remove(id perdure.ScheduleID) (bool, error) {
	_, err := tx.exec(removeFires, id)
	var n int64
	if err == nil {
		n, err = tx.exec(removeSchedule, id)
	}
	return wrapped(n > 0, err, "remove schedule %s", id)
}

func (tx scheduleStore) AddFire(f perdure.Fire) error {
	f.Nominal, f.Actual = micro(f.Nominal), micro(f.Actual)
	record, err := encode(f)
	var n int64
	if err == nil {
		n, err = tx.exec(insertFire, f.Schedule, micros(f.Nominal), f.Session, record)
	}
	if err := restored(n, err, "the fire"); err != nil {
		return fmt.Errorf("fire of %s at %s: %w", f.Schedule, f.Nominal, err)
	}
	return nil
}

func (tx scheduleStore) UpdateFire(f perdure.Fire) error {
	f.Nominal, f.Actual = micro(f.Nominal), micro(f.Actual)
	record, err := encode(f)
	var n int64
	if err == nil {
		n, err = tx.exec(updateFire, f.Schedule, micros(f.Nominal), record)
	}
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	return wrap(err, "fire of %s at %s", f.Schedule, f.Nominal)
}

// dumpSchedules adds the schedules of a session with their fires, by schedule and nominal time.
func (tx *Tx) dumpSchedules(d *store.SessionDump) (err error) {
	if d.Schedules, err = tx.Schedules().List(store.ScheduleFilter{Session: d.Session.ID}); err != nil {
		return err
	}
	for _, s := range d.Schedules {
		fires, err := tx.Schedules().Fires(s.ID, 0)
		if err != nil {
			return err
		}
		slices.Reverse(fires)
		d.Fires = append(d.Fires, fires...)
	}
	return nil
}

// restoreSchedules writes the schedules of a dump.
func (tx *Tx) restoreSchedules(d store.SessionDump) error {
	for _, s := range d.Schedules {
		_, err := tx.Schedules().Get(s.ID)
		if err == nil {
			err = restored(0, nil, "schedule "+string(s.ID))
		}
		if missing(err) {
			err = tx.Schedules().Put(s, store.ScheduleCaps{})
		}
		if err != nil {
			return err
		}
	}
	for _, f := range d.Fires {
		if err := tx.Schedules().AddFire(f); err != nil {
			return err
		}
	}
	return nil
}

// scanRecord reads a row with one encoded record.
func scanRecord[T any](r row) (T, error) {
	var record T
	body, err := content(r)
	if err == nil {
		err = decode(body, &record)
	}
	return record, err
}
