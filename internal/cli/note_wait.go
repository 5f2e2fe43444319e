package cli

import "time"

// silentTime is how long a command waits without output. Then it says what it waits for.
const silentTime = 5 * time.Second

// noteWait says after silentTime what the command waits for. The returned function ends the wait,
// and must be called.
func (a *app) noteWait(what string) (ended func()) {
	timer := time.AfterFunc(silentTime, func() { a.message("waiting for %s; Ctrl-C stops", what) })
	return func() { timer.Stop() }
}
