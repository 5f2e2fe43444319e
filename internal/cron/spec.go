package cron

import (
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure"
)

// Spec says at which minutes a recurring schedule fires: a cron expression, read (SC1). [Parse] reads the text.
// The zero value has no numbers and never fires; [Spec.Check] refuses it.
type Spec struct {
	Minutes   NumberSet // 0 to 59
	Hours     NumberSet // 0 to 23
	MonthDays NumberSet // 1 to 31
	Months    NumberSet // 1 to 12
	WeekDays  NumberSet // 0 to 6; 0 is Sunday, and nothing is 7
	Wild      bool      // the minute or the hour begins with *: it follows elapsed time, else the clock on the wall (SC4)
	AnyDay    bool      // a field of days begins with *: a day must be in both sets, else one of them is enough (SC3)
}

// Check returns which set is empty or holds what is no minute, hour, day or month. It is Invalid.
func (s Spec) Check() error {
	for _, field := range []struct {
		name      string
		set       NumberSet
		low, high int
	}{
		{"minutes", s.Minutes, 0, 59}, {"hours", s.Hours, 0, 23}, {"days of the month", s.MonthDays, 1, 31},
		{"months", s.Months, 1, 12}, {"days of the week", s.WeekDays, 0, 6},
	} {
		if all := between(field.low, field.high); field.set == 0 || field.set&^all != 0 {
			return fmt.Errorf("%w: the %s of a schedule are at least one of %d to %d", perdure.Invalid, field.name, field.low, field.high)
		}
	}
	return nil
}

// CheckFires returns why a schedule is not made at the moment now: it fires not once in the next ten years (SC9), or its smallest
// interval is shorter than least (SC10), where 0 is no limit. It is Invalid. A nil zone is UTC.
func (s Spec) CheckFires(now time.Time, zone *time.Location, least time.Duration) error {
	if err := s.Check(); err != nil {
		return err
	}
	if _, ok := s.Next(now, zone); !ok {
		reason := "no such day comes at such a time: change the days, the months or the time"
		if s.spacing() == 0 {
			reason = "its months never have such a day: change the days or the months"
		}
		return fmt.Errorf("%w: the schedule does not fire in the next %d years: %s", perdure.Invalid, horizonYears, reason)
	}
	if shortest := s.Interval(); shortest < least {
		return fmt.Errorf("%w: the schedule fires again after %s, and at least %s must lie between two fires: take fewer minutes or hours",
			perdure.Invalid, shortest, least)
	}
	return nil
}

const (
	calendarYears = 400                    // after so many the calendar begins anew, on the same day of the week
	calendarDays  = calendarYears*365 + 97 // of them
)

// Interval returns the shortest time between two fires, by the clock on the wall: exact over the whole calendar, across midnight,
// with the shifts of the clocks left out (SC10). 0: the spec has no day or no time, and never fires.
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

// spacing returns the smallest number of days from one day that matches to the next; 0: there is none.
func (s Spec) spacing() int {
	const start = 2000 // any would do
	begin := time.Date(start, time.January, 1, 0, 0, 0, 0, time.UTC)
	first, last, smallest := -1, -1, calendarDays
	for month := begin; month.Year() < start+calendarYears; month = month.AddDate(0, 1, 0) {
		for day := range s.daysOf(month).All() {
			now := int((month.Unix()-begin.Unix())/daySeconds) + day // seconds, since a Duration cannot hold 400 years
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
	return smallest // from the last one on to the next 400 years it is no less: what lies there lies in them too
}
