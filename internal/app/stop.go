package app

import (
	"cmp"
	"time"
)

// stopDefault is the default limit of a stop.
const stopDefault = 10 * time.Second

// stopTimes divides the time of a stop among its steps, which follow one another and together take
// no longer than the limit. After that the command line exits without waiting (--stop-timeout).
type stopTimes struct {
	settle time.Duration // for running calls
	end    time.Duration // for work to return after its context has ended
	answer time.Duration // for requests, from the signal on
	flush  time.Duration // for the last spans and metrics
}

// timesOf divides the time of a stop; zero: 10 s. A server gives running calls most of it. Other
// commands give them a fifth, because a user is waiting.
func timesOf(limit time.Duration, serves bool) stopTimes {
	limit = cmp.Or(limit, stopDefault)
	t := stopTimes{settle: limit / 5, end: limit / 10, answer: limit * 85 / 100, flush: limit / 10}
	if serves {
		t.settle = limit * 7 / 10
	}
	return t
}
