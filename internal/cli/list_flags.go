package cli

import (
	"fmt"
	"slices"
	"time"
)

// listFlags are the flags of commands that list things with a time.
type listFlags struct {
	Limit int    `help:"Maximum number; 0 for all." placeholder:"N" default:"0"`
	Since string `help:"Only those since this time: a duration such as 30m or 7d, a day such as 2026-01-31 (in UTC), or an RFC 3339 time." placeholder:"WHEN"`
	outputFlags
}

// check refuses invalid flags before anything is opened.
func (f listFlags) check() error {
	if err := checkLimit(f.Limit); err != nil {
		return err
	}
	if _, err := f.start(time.Now()); err != nil {
		return err
	}
	return f.outputFlags.check()
}

// checkLimit refuses a negative number of things.
func checkLimit(limit int) error {
	if limit < 0 {
		return usageError(fmt.Sprintf("--limit %d", limit), "give 0 for all, or a positive number")
	}
	return nil
}

// start returns the time of --since; zero: it was not given.
func (f listFlags) start(now time.Time) (time.Time, error) { return parseTime("since", f.Since, now) }

// asked returns the limit that an engine may apply: none with --since, which the command applies
// first.
func (f listFlags) asked() int {
	if f.Since != "" {
		return 0
	}
	return f.Limit
}

// newestFirst sorts things by a time, the latest first. Things of the same time stay in the reverse
// of their order, which is that of their creation.
func newestFirst[T any](things []T, at func(T) time.Time) []T {
	sorted := slices.Clone(things)
	slices.Reverse(sorted)
	slices.SortStableFunc(sorted, func(one, other T) int { return at(other).Compare(at(one)) })
	return sorted
}

// within returns the things since the time of --since, at most as many as --limit.
func within[T any](f listFlags, now time.Time, things []T, at func(T) time.Time) ([]T, error) {
	since, err := f.start(now)
	if err != nil {
		return nil, err
	}
	var some []T
	for _, thing := range things {
		if !at(thing).Before(since) && (f.Limit == 0 || len(some) < f.Limit) {
			some = append(some, thing)
		}
	}
	return some, nil
}

// newestWithin is within of newestFirst.
func newestWithin[T any](f listFlags, now time.Time, things []T, at func(T) time.Time) ([]T, error) {
	return within(f, now, newestFirst(things, at), at)
}
