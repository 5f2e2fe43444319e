// Package gcstart lets a process start with fewer garbage collections.
//
// It may import the standard library only. The one thing to know: importing it is enough. Go
// initializes packages that are ready in the order of their paths, so this one comes before the
// libraries that allocate the most when they are initialized.
package gcstart

import (
	"os"
	"runtime/debug"
	"time"
)

const (
	startPercent = 400         // of garbage, beside what is in use
	startTime    = time.Second // most commands have ended by then
)

var _ = begin(os.Getenv("GOGC"), func(end func()) { time.AfterFunc(startTime, end) })

// begin raises the percentage of garbage at which the next collection starts, and has later restore
// it. It reports false, and changes nothing, if the user has set one.
func begin(set string, later func(end func())) bool {
	if set != "" {
		return false
	}
	former := debug.SetGCPercent(startPercent)
	later(func() { debug.SetGCPercent(former) })
	return true
}
