package cron

import (
	"iter"
	"time"
)

const (
	horizonYears = 10 // what does not fire in so many years never does (SC9)
	hourSeconds  = 60 * 60
	daySeconds   = 24 * hourSeconds
)

// Next returns the first fire after a moment, not at it, in the zone (SC2). It is pure: the zone's data come with it, and nil is
// UTC. ok is false if there is no fire in the ten years after that moment.
//
// A wall time in a gap fires as the gap ends, and one that happens twice fires at the first of the two (SC5, SC6); a wild spec
// fires at each real minute whose reading matches, and at no other (SC7). This is exact where the clocks of the zone are shifted
// by at most a day at once, and not twice within eight hours.
func (s Spec) Next(after time.Time, zone *time.Location) (at time.Time, ok bool) {
	zone = zoneOr(zone)
	found, ok := s.next(after, zone)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(found.at, 0).In(zone), true
}

// next looks for the first day that has a fire. Where clocks go back past midnight, the day after it can have an earlier one.
func (s Spec) next(after time.Time, zone *time.Location) (found moment, ok bool) {
	now := after.Unix() // fires have no fractions, so what is after this second is after the moment
	limit := after.UTC().AddDate(horizonYears, 0, 0).Unix()
	var foundOn int64
	for midnight := range s.days(after, zone) {
		if ok && midnight > foundOn+daySeconds {
			break
		}
		day := clockOf(midnight, zone)
		for m := range s.moments(day, now) {
			if ok && m.wall-day.greatest >= found.at {
				break // the others are later
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

// days yields the midnights of the days that match, as wall seconds, from the day before that of a moment to ten years on.
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

// daysOf returns the days of a month that match (SC3). month is its first day.
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
	all := between(1, monthLength(month))
	if s.AnyDay {
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
