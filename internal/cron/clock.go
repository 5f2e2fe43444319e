package cron

import (
	"iter"
	"math"
	"time"
)

// ClockEffect says how a clock change of the zone affects a fire.
type ClockEffect string

// The effects. The empty value means no effect.
const (
	// The fire stands for wall times in a gap, at the end of the gap (SC5).
	ClockGap ClockEffect = "gap"
	// The wall time happens twice; the first occurrence fires, the second does not (SC6).
	ClockOnce   ClockEffect = "once"
	ClockFirst  ClockEffect = "first"  // the wall time happens twice and fires twice; this is the first (SC7)
	ClockSecond ClockEffect = "second" // this is the second
	// Wall times since the previous fire do not exist, and are skipped (SC7).
	ClockSkipped ClockEffect = "skipped"
)

// moment is the instant at which one wall-clock minute of a spec fires.
type moment struct {
	at    int64 // Unix seconds; for a gap, its end
	wall  int64 // the wall-clock time, in seconds as if it were UTC
	clock ClockEffect
}

// moments yields the moments of the minutes of a day in wall-clock order. It may skip moments that
// are not after the given one. On a day without clock changes they are in order of time.
func (s Spec) moments(day dayClock, after int64) iter.Seq[moment] {
	return func(yield func(moment) bool) {
		for hour := range s.Hours.All() {
			begin := day.midnight + int64(hour)*hourSeconds
			if begin+hourSeconds-day.minOffset <= after {
				continue
			}
			for minute := range s.Minutes.All() {
				wall := begin + int64(minute)*60
				if day.plain() {
					if !yield(moment{at: wall - day.minOffset, wall: wall}) {
						return
					}
				} else if !s.resolve(wall, day.periods, yield) {
					return
				}
			}
		}
	}
}

// resolve yields the instants at which the wall clock shows a time, according to SC5 to SC8. It
// returns false if yield does.
func (s Spec) resolve(wall int64, periods []period, yield func(moment) bool) bool {
	times, gapEnd := 0, int64(0)
	for i, p := range periods {
		switch at := wall - p.offset; {
		case p.has(at):
			times++
		case i > 0 && at < p.from && wall-periods[i-1].offset >= p.from:
			gapEnd = p.from
		}
	}
	if times == 0 {
		clock := ClockGap
		if s.FollowsElapsedTime {
			clock = ClockSkipped
		}
		return yield(moment{at: gapEnd, wall: wall, clock: clock})
	}
	var clock ClockEffect
	switch {
	case times > 1 && s.FollowsElapsedTime:
		clock = ClockFirst
	case times > 1:
		clock = ClockOnce
	}
	for _, p := range periods {
		at := wall - p.offset
		if !p.has(at) {
			continue
		}
		if !yield(moment{at: at, wall: wall, clock: clock}) {
			return false
		}
		if clock == ClockOnce {
			return true
		}
		if clock == ClockFirst {
			clock = ClockSecond
		}
	}
	return true
}

// period is a period in which a zone keeps one offset.
type period struct {
	from, to int64 // Unix seconds; to is the start of the next period
	offset   int64 // seconds east of UTC
}

func (p period) has(at int64) bool { return at >= p.from && at < p.to }

// dayClock describes the wall clock of a zone on one day.
type dayClock struct {
	midnight int64 // in wall-clock seconds
	// That the day's wall times may fall into, in order; the first has no start and the last no
	// end.
	periods              []period
	minOffset, maxOffset int64 // of their offsets
}

// plain reports whether the clocks do not change on that day or near it.
func (d dayClock) plain() bool { return len(d.periods) == 1 }

func clockOf(midnight int64, zone *time.Location) dayClock {
	day := dayClock{midnight: midnight, periods: offsetPeriods(midnight, zone)}
	day.minOffset, day.maxOffset = day.periods[0].offset, day.periods[0].offset
	for _, p := range day.periods {
		day.minOffset, day.maxOffset = min(day.minOffset, p.offset), max(day.maxOffset, p.offset)
	}
	return day
}

func offsetPeriods(midnight int64, zone *time.Location) []period {
	const (
		reach  = 16 * hourSeconds // no zone was ever further from UTC
		stride = 8 * hourSeconds  // no zone changes twice within it
	)
	begin, end := midnight-reach, midnight+daySeconds+reach
	periods := []period{{from: math.MinInt64, to: math.MaxInt64, offset: offsetAt(begin, zone)}}
	for at := begin; at < end; at += stride {
		before, after := periods[len(periods)-1].offset, offsetAt(at+stride, zone)
		if before == after {
			continue
		}
		// ZoneBounds would return the transition, but after 2037 it invents some and misplaces
		// others.
		low, high := at, at+stride
		for high-low > 1 {
			if middle := low + (high-low)/2; offsetAt(middle, zone) == before {
				low = middle
			} else {
				high = middle
			}
		}
		periods[len(periods)-1].to = high
		periods = append(periods, period{from: high, to: math.MaxInt64, offset: after})
	}
	return periods
}

func offsetAt(at int64, zone *time.Location) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}
