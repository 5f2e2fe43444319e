package cron

import (
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure"
)

// Spec is a parsed cron expression: the minutes at which a recurring schedule fires. [Parse] parses
// the text. The zero value has no numbers and never fires; [Spec.Check] refuses it.
type Spec struct {
	Minutes   NumberSet // 0 to 59
	Hours     NumberSet // 0 to 23
	MonthDays NumberSet // 1 to 31
	Months    NumberSet // 1 to 12
	WeekDays  NumberSet // 0 to 6; 0 is Sunday, and 7 is not used
	// Minute or hour begins with *: fires follow elapsed time, otherwise the wall clock (SC4).
	FollowsElapsedTime bool
	// A day field begins with *: a day must be in both sets, otherwise in one of them (SC3).
	DayInBothSets bool
}

// Check reports a set that is empty or has a number out of range. The error is Invalid.
func (s Spec) Check() error {
	for _, field := range []struct {
		name      string
		set       NumberSet
		low, high int
	}{
		{"minutes", s.Minutes, 0, 59}, {"hours", s.Hours, 0, 23}, {"days of the month", s.MonthDays, 1, 31},
		{"months", s.Months, 1, 12}, {"days of the week", s.WeekDays, 0, 6},
	} {
		if all := numbersBetween(field.low, field.high); field.set == 0 || field.set&^all != 0 {
			return fmt.Errorf("%w: the %s of a schedule need at least one number, each from %d to %d", perdure.Invalid, field.name, field.low, field.high)
		}
	}
	return nil
}

// CheckFires returns why a schedule must not be created at the time now: it does not fire in the
// next ten years (SC9), or its smallest interval is shorter than least (SC10); 0 means no limit.
// The error is Invalid. A nil zone is UTC.
func (s Spec) CheckFires(now time.Time, zone *time.Location, minInterval time.Duration) error {
	if err := s.Check(); err != nil {
		return err
	}
	if _, ok := s.Next(now, zone); !ok {
		reason := "the matching days never have that time: change the days, the months or the time"
		if s.spacing() == 0 {
			reason = "its months never have such a day: change the days or the months"
		}
		return fmt.Errorf("%w: the schedule does not fire in the next %d years: %s", perdure.Invalid, horizonYears, reason)
	}
	if shortest := s.Interval(); shortest < minInterval {
		return fmt.Errorf("%w: the schedule fires again after %s, and at least %s must lie between two fires: use fewer minutes or hours",
			perdure.Invalid, shortest, minInterval)
	}
	return nil
}

const (
	calendarYears = 400                    // after which the calendar repeats, on the same day of the week
	calendarDays  = calendarYears*365 + 97 // of them
)

// Interval returns the shortest time between two fires by the wall clock: exact over the whole
// calendar and across midnight, without clock changes (SC10). 0: the spec has no day or no time,
// and never fires.
func (s Spec) Interval() time.Duration {
	days := s.spacing()
	if days == 0 || s.Minutes == 0 || s.Hours == 0 {
		return 0
	}
	first, last, shortest := -1, -1, math.MaxInt
	for hour := range s.Hours.All() {
		for minute := range s.Minutes.All() {
			now := hour*60 + minute
			if first < 0 {
				first = now
			} else {
				shortest = min(shortest, now-last)
			}
			last = now
		}
	}
	shortest = min(shortest, days*24*60+first-last)
	return time.Duration(shortest) * time.Minute
}

// spacing returns the smallest number of days between two matching days; 0: there are none.
func (s Spec) spacing() int {
	const start = 2000 // any year would do
	begin := time.Date(start, time.January, 1, 0, 0, 0, 0, time.UTC)
	first, last, smallest := -1, -1, calendarDays
	for month := begin; month.Year() < start+calendarYears; month = month.AddDate(0, 1, 0) {
		for day := range s.daysOf(month).All() {
			// Computed in seconds, since a Duration cannot hold 400 years.
			now := int((month.Unix()-begin.Unix())/daySeconds) + day
			if first < 0 {
				first = now
			} else if smallest = min(smallest, now-last); smallest == 1 {
				return 1
			}
			last = now
		}
	}
	if first < 0 {
		return 0
	}
	return smallest // the gap to the next 400 years is no smaller, since the calendar repeats
}
