package cli

import "time"

// patience is how long a command is silent while it waits. After it the command says what it waits
// for.
const patience = 5 * time.Second

// noteWait says after some seconds what the command waits for. The returned function ends the wait,
// and must be called.
func (a *app) noteWait(what string) (ended func()) {
	timer := time.AfterFunc(patience, func() { a.message("waiting for %s; Ctrl-C stops", what) })
	return func() { timer.Stop() }
}
