package cli

import (
	"context"
	"os"
	"sync"
	"time"
)

// exitReason is the reason why Main stops waiting for a command.
type exitReason struct {
	code    int
	err     error  // the error that the command was about to report; nil: none
	message string // message for the user
}

// ctrlC holds the handler that receives a Ctrl-C before it ends the command.
type ctrlC struct {
	mu      sync.Mutex
	handler func() bool // guarded by mu; reports whether it handled the Ctrl-C; nil: no handler
}

// onCtrlC passes every Ctrl-C to take until the returned function is called. A Ctrl-C that take
// does not handle ends the command, and so does one that arrives while take still runs.
func (a lifetime) onCtrlC(take func() bool) (stop func()) {
	set := func(take func() bool) {
		a.ctrlC.mu.Lock()
		defer a.ctrlC.mu.Unlock()
		a.ctrlC.handler = take
	}
	set(take)
	return func() { set(nil) }
}

// checkStopTimeout refuses a stop timeout that is not positive.
func (a lifetime) checkStopTimeout() error {
	if a.flags.StopTimeout <= 0 {
		return usageError("--stop-timeout must be greater than 0",
			"for instance 10s; a second Ctrl-C or SIGTERM exits at once")
	}
	return nil
}

// listen ends the command when a signal arrives. The first signal starts a clean stop, which may
// handler as long as the stop timeout; the next one exits at once. The returned function stops
// listening.
func (a lifetime) listen() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // listening continues during the stop
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var taken chan bool // nil: no handler is running
		for unbind := func() {}; ; {
			end := false
			select {
			case <-ctx.Done():
				unbind()
				return
			case took := <-taken:
				taken, end = nil, !took
			case sig := <-a.Signals:
				if end = sig != os.Interrupt || taken != nil || a.stopping.Load(); !end {
					taken = a.passSignal()
					end = taken == nil
				}
			}
			switch {
			case !end:
			case a.stopping.Swap(true):
				a.abandon(exitReason{code: exitInterrupted,
					message: "exited at once; unfinished work resumes at the next start"})
			default:
				taken = nil // the result of the handler no longer matters
				unbind = a.runWithin(exitReason{code: int(a.stopCode.Load())})
				a.end(errInterrupted)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// passSignal passes a Ctrl-C to the handler; it returns nil when there is none. The channel
// receives whether the Ctrl-C was handled; its capacity is 1 because the receiver may be gone.
func (a lifetime) passSignal() chan bool {
	a.ctrlC.mu.Lock()
	take := a.ctrlC.handler
	a.ctrlC.mu.Unlock()
	if take == nil {
		return nil
	}
	taken := make(chan bool, 1)
	go func() { taken <- take() }() // it may call a store or a server
	return taken
}

// runWithin abandons the command when it has not ended within the stop timeout, unless the returned
// function is called before.
func (a lifetime) runWithin(l exitReason) (ended func()) {
	limit := a.flags.StopTimeout
	l.message = "stopped after " + limit.String() + " before all work had ended; the next start continues it"
	timer := time.AfterFunc(limit, func() { a.abandon(l) })
	return func() { timer.Stop() }
}

// abandon lets Main return. The first caller determines the reason.
func (a lifetime) abandon(l exitReason) {
	select {
	case a.abandoned <- l:
	default:
	}
}

// finalMessageTime is how long writing the final message may take: a suspended terminal accepts no
// output.
const finalMessageTime = time.Second

// exit restores the terminal and prints why the command ends.
func (a lifetime) exit(l exitReason) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_ = a.keys.restore() // an error cannot be reported anywhere else
		a.reportError(l.err)
		a.message("%s", l.message)
	}()
	select {
	case <-said:
	case <-time.After(finalMessageTime):
	}
}

// rawKeys restores a terminal that was switched to unbuffered keys, also when the command that
// switched it is abandoned. It is safe for concurrent use.
type rawKeys struct {
	mu   sync.Mutex
	back func() error // guarded by mu; nil: the terminal is in its normal mode
}

// wrap wraps take and remembers its restore function.
func (k *rawKeys) wrap(take func() (func() error, error)) func() (func() error, error) {
	if take == nil {
		return nil
	}
	return func() (func() error, error) {
		back, err := take()
		if err == nil {
			k.mu.Lock()
			k.back = back
			k.mu.Unlock()
		}
		return k.restore, err
	}
}

// restore restores the terminal, once.
func (k *rawKeys) restore() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	back := k.back
	k.back = nil
	if back == nil {
		return nil
	}
	return back()
}
