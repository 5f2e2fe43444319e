package cli

import (
	"context"
	"os"
	"sync"
	"time"
)

// leaving is why a command is not waited for any more.
type leaving struct {
	code int
	err  error  // what the command was about to say; nil: nothing
	says string // to people
}

// ctrlC is who wants a Ctrl-C before it ends the command.
type ctrlC struct {
	mu   sync.Mutex
	take func() bool // guarded by mu; reports whether it took the Ctrl-C; nil: nobody wants it
}

// onCtrlC gives every Ctrl-C to take, until the returned function is called. One that take does not want
// ends the command, and so does one that comes while take is at work.
func (a *app) onCtrlC(take func() bool) (stop func()) {
	set := func(take func() bool) {
		a.ctrlC.mu.Lock()
		defer a.ctrlC.mu.Unlock()
		a.ctrlC.take = take
	}
	set(take)
	return func() { set(nil) }
}

// stops refuses a stop that may take no time.
func (a *app) stops() error {
	if a.flags.StopTimeout <= 0 {
		return misuse("--stop-timeout is how long a stop may take, and more than nothing", "for instance 10s; a second Ctrl-C or SIGTERM ends a command at once")
	}
	return nil
}

// listen ends the command when a signal says so: the first one lets it stop, for as long as a stop may take,
// and the next one ends it at once. The returned function stops the listening.
func (a *app) listen() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background()) // the stop is listened through as well
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var taken chan bool // nil: no Ctrl-C is being taken
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
					taken = a.offer()
					end = taken == nil
				}
			}
			switch {
			case !end:
			case a.stopping.Swap(true):
				a.abandon(leaving{code: exitInterrupted, says: "ended at once: what was not done goes on with the next start"})
			default:
				taken = nil // what comes of it does not matter any more
				unbind = a.within(leaving{code: int(a.stopCode.Load())})
				a.end(errInterrupted)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// offer gives a Ctrl-C to whoever wants it; nil: nobody does. The channel, of capacity 1 since nobody may wait
// for it, gets whether it was taken.
func (a *app) offer() chan bool {
	a.ctrlC.mu.Lock()
	take := a.ctrlC.take
	a.ctrlC.mu.Unlock()
	if take == nil {
		return nil
	}
	taken := make(chan bool, 1)
	go func() { taken <- take() }() // it may ask a store or a server
	return taken
}

// within leaves the command behind when it has not ended after the time that a stop may take, unless the
// returned function is called before.
func (a *app) within(l leaving) (ended func()) {
	limit := a.flags.StopTimeout
	l.says = "stopped after " + limit.String() + ", although not everything had ended: what was not done goes on with the next start"
	timer := time.AfterFunc(limit, func() { a.abandon(l) })
	return func() { timer.Stop() }
}

// abandon lets Main return. Whoever is first says why.
func (a *app) abandon(l leaving) {
	select {
	case a.left <- l:
	default:
	}
}

// wordTime is how long the last words may take: a terminal that is stopped takes none.
const wordTime = time.Second

// leave gives the terminal back and says why the command ends.
func (a *app) leave(l leaving) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_ = a.keys.restore() // there is no other way to it
		a.complain(l.err)
		a.say("%s", l.says)
	}()
	select {
	case <-said:
	case <-time.After(wordTime):
	}
}

// keys gives a terminal back whose keys were taken one by one, also when the command that took them is left
// behind. It is safe for concurrent use.
type keys struct {
	mu   sync.Mutex
	back func() error // guarded by mu; nil: the terminal is as it was
}

// taking is take, remembered until the terminal was given back.
func (k *keys) taking(take func() (func() error, error)) func() (func() error, error) {
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

// restore gives the terminal back, once.
func (k *keys) restore() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	back := k.back
	k.back = nil
	if back == nil {
		return nil
	}
	return back()
}
