package main

import (
	"cmp"
	"time"
)

// stopDefault is how long the whole stop may take where nothing else was said.
const stopDefault = 10 * time.Second

// stopTimes is how a stop shares out its time: one step follows the other, and together they take no longer
// than the whole. What still has not ended then, the command line leaves behind (--stop-timeout).
type stopTimes struct {
	settle time.Duration // for calls that run
	end    time.Duration // for work to return, once its context has ended
	answer time.Duration // from the signal on, for requests
	flush  time.Duration // for the last spans and figures
}

// timesOf shares out the time of a stop; zero: 10 s. A server lets calls settle for most of it. Another command
// does so for a fifth, since a person waits for its end.
func timesOf(whole time.Duration, serves bool) stopTimes {
	whole = cmp.Or(whole, stopDefault)
	t := stopTimes{settle: whole / 5, end: whole / 10, answer: whole * 85 / 100, flush: whole / 10}
	if serves {
		t.settle = whole * 7 / 10
	}
	return t
}
