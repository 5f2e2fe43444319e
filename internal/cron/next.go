package cron

import (
	"iter"
	"time"
)

const (
	horizonYears = 10 // a spec that does not fire in so many years never does (SC9)
	hourSeconds  = 60 * 60
	daySeconds   = 24 * hourSeconds
)

// Next returns the first fire after a time, exclusively, in the zone (SC2). It is pure: the zone's
// data come with it, and nil is UTC. ok is false if there is no fire in the following ten years.
//
// A wall time in a gap fires at the end of the gap, and one that happens twice fires at its first
// occurrence (SC5, SC6). A wild spec fires at each real minute whose wall-clock time matches, and
// at no other (SC7). This is exact if the clocks of the zone change by at most a day at once, and
// not twice within eight hours.
func (s Spec) Next(after time.Time, zone *time.Location) (at time.Time, ok bool) {
	zone = zoneOr(zone)
	found, ok := s.next(after, zone)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(found.at, 0).In(zone), true
}

// next looks for the first day that has a fire. If the clocks go back across midnight, the
// following day can have an earlier one.
func (s Spec) next(after time.Time, zone *time.Location) (found moment, ok bool) {
	now := after.Unix() // fires are whole seconds, so a fire after this second is after the time
	limit := after.UTC().AddDate(horizonYears, 0, 0).Unix()
	var foundOn int64
	for midnight := range s.days(after, zone) {
		if ok && midnight > foundOn+daySeconds {
			break
		}
		day := clockOf(midnight, zone)
		for m := range s.moments(day, now) {
			if ok && m.wall-day.maxOffset >= found.at {
				break // the remaining moments are later
			}
			if m.clock == ClockSkipped || m.at <= now || ok && m.at >= found.at {
				continue
			}
			if !ok {
				foundOn = midnight
			}
			found, ok = m, true
		}
		if ok && day.plain() {
			break
		}
	}
	return found, ok && found.at <= limit
}

// days yields the midnights of the matching days in wall-clock seconds, from the day before a time
// until ten years later.
func (s Spec) days(after time.Time, zone *time.Location) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		wall := time.Unix(after.Unix()+offsetAt(after.Unix(), zone), 0).UTC()
		first, last := wall.AddDate(0, 0, -2).Unix(), wall.AddDate(horizonYears, 0, 1).Unix()
		year, month, _ := wall.AddDate(0, 0, -1).Date()
		for m := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC); m.Unix() <= last; m = m.AddDate(0, 1, 0) {
			for day := range s.daysOf(m).All() {
				midnight := m.Unix() + int64(day-1)*daySeconds
				if midnight > last || midnight > first && !yield(midnight) {
					return
				}
			}
		}
	}
}

// daysOf returns the matching days of a month (SC3). month is its first day.
func (s Spec) daysOf(month time.Time) NumberSet {
	if !s.Months.Has(int(month.Month())) {
		return 0
	}
	var byWeek NumberSet
	for weekday := range s.WeekDays.All() {
		for day := 1 + (weekday-int(month.Weekday())+7)%7; day <= 31; day += 7 {
			byWeek |= 1 << day
		}
	}
	all := numbersBetween(1, monthLength(month))
	if s.DayInBothSets {
		return all & s.MonthDays & byWeek
	}
	return all & (s.MonthDays | byWeek)
}

func monthLength(month time.Time) int { return month.AddDate(0, 1, -1).Day() }

func zoneOr(zone *time.Location) *time.Location {
	if zone == nil {
		return time.UTC
	}
	return zone
}
