package cron

import (
	"iter"
	"math"
	"time"
)

// ClockEffect is what the clocks of a zone, which are put forward or back, have to do with a fire.
type ClockEffect string

// The effects. None is empty.
const (
	ClockGap     ClockEffect = "gap"     // wall times that do not exist fire here, as the gap ends (SC5)
	ClockOnce    ClockEffect = "once"    // the wall time happens twice; this is the first, and the second does not fire (SC6)
	ClockFirst   ClockEffect = "first"   // the wall time happens twice and fires twice; this is the first (SC7)
	ClockSecond  ClockEffect = "second"  // and this the second
	ClockSkipped ClockEffect = "skipped" // before it, after the fire before, are wall times that do not exist: they do not fire (SC7)
)

// moment is what becomes of one wall-clock minute of a spec.
type moment struct {
	at    int64 // seconds since 1970; of a gap its end
	wall  int64 // what the clock on the wall reads, as if it were UTC
	clock ClockEffect
}

// moments yields what becomes of the minutes of a day, by the clock on the wall, and leaves out some of those that are not after a
// moment. Of a plain day their order is that of time.
func (s Spec) moments(day dayClock, after int64) iter.Seq[moment] {
	return func(yield func(moment) bool) {
		for hour := range s.Hours.All() {
			begin := day.midnight + int64(hour)*hourSeconds
			if begin+hourSeconds-day.least <= after {
				continue
			}
			for minute := range s.Minutes.All() {
				wall := begin + int64(minute)*60
				if day.plain() {
					if !yield(moment{at: wall - day.least, wall: wall}) {
						return
					}
				} else if !s.resolve(wall, day.periods, yield) {
					return
				}
			}
		}
	}
}

// resolve yields the instants at which the clock on the wall reads so, as SC5 to SC8 will have them. It returns false if yield does.
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
		if s.Wild {
			clock = ClockSkipped
		}
		return yield(moment{at: gapEnd, wall: wall, clock: clock})
	}
	var clock ClockEffect
	switch {
	case times > 1 && s.Wild:
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

// period is a stretch of time in which a zone keeps one offset.
type period struct {
	from, to int64 // seconds since 1970; to is the first of the next period
	offset   int64 // seconds east of UTC
}

func (p period) has(at int64) bool { return at >= p.from && at < p.to }

// dayClock is what the clock on the wall of a zone does on a day.
type dayClock struct {
	midnight        int64    // as wall seconds
	periods         []period // that the wall times of the day may fall into, in order; the first has no beginning and the last no end
	least, greatest int64    // of their offsets
}

// plain reports whether nothing is shifted on that day, or near it.
func (d dayClock) plain() bool { return len(d.periods) == 1 }

func clockOf(midnight int64, zone *time.Location) dayClock {
	day := dayClock{midnight: midnight, periods: periodsAround(midnight, zone)}
	day.least, day.greatest = day.periods[0].offset, day.periods[0].offset
	for _, p := range day.periods {
		day.least, day.greatest = min(day.least, p.offset), max(day.greatest, p.offset)
	}
	return day
}

func periodsAround(midnight int64, zone *time.Location) []period {
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
		// ZoneBounds would name the border, but after 2037 it invents some and misplaces others.
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
