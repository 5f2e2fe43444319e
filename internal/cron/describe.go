package cron

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Describe describes for people when a spec fires: "every 15 minutes from 09:00 to 17:59, from
// Monday to Friday".
func (s Spec) Describe() string {
	return s.describeTimes() + s.describeDays() + s.describeMonths()
}

// maxListedTimes is up to how many times of a day are listed individually.
const maxListedTimes = 6

func (s Spec) describeTimes() string {
	minutes, hours := slices.Collect(s.Minutes.All()), slices.Collect(s.Hours.All())
	if len(minutes)*len(hours) <= maxListedTimes {
		var times []string
		for _, h := range hours {
			for _, m := range minutes {
				times = append(times, fmt.Sprintf("%02d:%02d", h, m))
			}
		}
		return "at " + joined(times)
	}
	every := describeMinutes(minutes)
	if len(hours) == 24 {
		if len(minutes) == 1 && minutes[0] == 0 {
			return "every hour"
		}
		return every
	}
	if first, last := hours[0], hours[len(hours)-1]; last-first+1 == len(hours) {
		return fmt.Sprintf("%s from %02d:%02d to %02d:%02d", every, first, minutes[0], last, minutes[len(minutes)-1])
	}
	var names []string
	for _, h := range hours {
		names = append(names, fmt.Sprintf("%02d", h))
	}
	return every + ", in the hours " + joined(names)
}

// describeMinutes describes the minutes of an hour.
func describeMinutes(minutes []int) string {
	if len(minutes) == 60 {
		return "every minute"
	}
	if step := 60 / len(minutes); 60%len(minutes) == 0 && len(minutes) > 1 && minutes[0] == 0 && minutes[1] == step && minutes[len(minutes)-1] == 60-step && evenlySpaced(minutes) {
		return fmt.Sprintf("every %d minutes", step)
	}
	var names []string
	for _, m := range minutes {
		names = append(names, fmt.Sprint(m))
	}
	return plural("at minute", len(names)) + " " + joined(names) + " of every hour"
}

// evenlySpaced reports whether the numbers are evenly spaced.
func evenlySpaced(numbers []int) bool {
	for i := 2; i < len(numbers); i++ {
		if numbers[i]-numbers[i-1] != numbers[1]-numbers[0] {
			return false
		}
	}
	return true
}

func (s Spec) describeDays() string {
	anyDate, anyWeekday := s.MonthDays == numbersBetween(1, 31), s.WeekDays == numbersBetween(0, 6)
	dates, weekdays := s.describeDates(), s.describeWeekdays()
	switch {
	case anyDate && anyWeekday, !s.DayInBothSets && (anyDate || anyWeekday):
		return ", every day"
	case anyDate:
		return ", " + weekdays
	case anyWeekday:
		return ", " + dates
	case s.DayInBothSets:
		return ", " + dates + " if that is " + strings.TrimPrefix(strings.TrimPrefix(weekdays, "on "), "from ")
	}
	return ", " + dates + " and " + weekdays
}

func (s Spec) describeDates() string {
	var dates []string
	for d := range s.MonthDays.All() {
		dates = append(dates, fmt.Sprint(d))
	}
	return plural("on day", len(dates)) + " " + joined(dates) + " of the month"
}

func (s Spec) describeWeekdays() string {
	var days []time.Weekday
	for d := range 7 {
		if day := (d + 1) % 7; s.WeekDays.Has(day) { // the week starts on Monday
			days = append(days, time.Weekday(day))
		}
	}
	monday := func(d time.Weekday) int { return (int(d) + 6) % 7 }
	if n := len(days); n > 2 && monday(days[n-1])-monday(days[0]) == n-1 {
		return fmt.Sprintf("from %s to %s", days[0], days[n-1])
	}
	var names []string
	for _, d := range days {
		names = append(names, d.String())
	}
	return "on " + joined(names)
}

func (s Spec) describeMonths() string {
	if s.Months == numbersBetween(1, 12) {
		return ""
	}
	var names []string
	for m := range s.Months.All() {
		names = append(names, time.Month(m).String())
	}
	return ", in " + joined(names)
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// joined formats a list: a, b and c.
func joined(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
