package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// admissionQueue is an admission queue: it admits `slots` requests at a time and lets at most
// `maxWaiting` further ones wait, each for at most `patience`.
//
// Principals with waiting requests take turns, each in the order of its requests, so that one busy
// principal barely delays another (R22). If the queue is full, a principal with few waiting
// requests displaces the latest request of the principal with the longest line.
//
// A refusal marks an overload, which lasts for one patience. In an overload a slot is never free
// for long, so the waiting time and the length of the queue are divided by overloadDivisor.
// Admitted requests then still finish in good time instead of waiting until their clients give up,
// and fewer goroutines wait, whose stacks the garbage collector would have to scan (R23).
//
// It is safe for concurrent use and has no goroutines of its own.
type admissionQueue struct {
	name       string
	slots      int
	maxWaiting int // how many may wait
	patience   time.Duration

	mu          sync.Mutex
	running     int                  // guarded by mu, as are the fields below
	waiting     int                  // in all lines together
	lastRefusal time.Time            // time of the last refusal
	lines       map[string][]*waiter // by principal; no line is empty
	order       []string             // the order in which lines are served: the keys of lines
}

// waiter is a waiting request. told has a capacity of 1 and receives one value: nil when a slot is
// granted, or the refusal.
type waiter struct{ decision chan error }

// overloadDivisor divides the patience and the queue length in an overload.
const overloadDivisor = 4

func newAdmissionQueue(name string, places, waiting int, patience time.Duration) *admissionQueue {
	return &admissionQueue{name: name, slots: places, maxWaiting: waiting, patience: patience, lines: map[string][]*waiter{}}
}

// full reports whether enter would refuse a request of a principal now. The caller then refuses it.
func (g *admissionQueue) full(principal string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	full := g.running >= g.slots && g.waiting >= g.maxQueue(g.overloaded(now)) && g.longestOther(principal) == ""
	if full {
		g.lastRefusal = now
	}
	return full
}

// overloaded reports whether there is an overload. The caller of overrun and line holds the mutex.
func (g *admissionQueue) overloaded(now time.Time) bool { return now.Sub(g.lastRefusal) < g.patience }

// maxQueue returns how many requests may wait.
func (g *admissionQueue) maxQueue(overrun bool) int {
	if overrun {
		return (g.maxWaiting + overloadDivisor - 1) / overloadDivisor
	}
	return g.maxWaiting
}

// longestOther returns the principal whose line is so long that one of its requests must make way
// for a request of principal; empty: there is none. The caller holds the mutex.
func (g *admissionQueue) longestOther(principal string) string {
	longest, maxLength := "", len(g.lines[principal])+1
	for other, line := range g.lines {
		if len(line) > maxLength {
			longest, maxLength = other, len(line)
		}
	}
	return longest
}

// acquire acquires a slot for a principal; leave releases it. The error is the refusal, or
// ctx.Err().
func (g *admissionQueue) acquire(ctx context.Context, principal string) error {
	if g == nil {
		return nil
	}
	w, patience, err := g.acquireOrQueue(principal)
	if w == nil {
		return err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-w.decision:
		return err
	case <-late.C:
		err = g.refusal()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if g.giveUp(principal, w, ctx.Err() == nil) {
		return err
	}
	if decision := <-w.decision; decision != nil || ctx.Err() == nil {
		return decision // the decision and the end of the wait coincided
	}
	g.release()
	return err
}

// acquireOrQueue acquires a slot or joins the queue. In the queue it returns the waiter and its
// maximum waiting time.
func (g *admissionQueue) acquireOrQueue(principal string) (_ *waiter, patience time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < g.slots { // then the queue is empty
		g.running++
		return nil, 0, nil
	}
	now := time.Now()
	overrun := g.overloaded(now)
	if patience = g.patience; overrun {
		patience /= overloadDivisor
	}
	if g.waiting >= g.maxQueue(overrun) {
		g.lastRefusal = now
		other := g.longestOther(principal)
		if other == "" {
			return nil, 0, g.refusal()
		}
		line := g.lines[other]
		last := line[len(line)-1] // the latest arrival
		g.remove(other, len(line)-1)
		last.decision <- g.refusal()
	}
	w := &waiter{decision: make(chan error, 1)}
	if len(g.lines[principal]) == 0 {
		g.order = append(g.order, principal)
	}
	g.lines[principal] = append(g.lines[principal], w)
	g.waiting++
	return w, patience, nil
}

// giveUp removes a waiter that gives up from the queue. ok is false if the waiter has already
// received a decision.
func (g *admissionQueue) giveUp(principal string, w *waiter, refused bool) (ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.lines[principal], w)
	if i < 0 {
		return false
	}
	g.remove(principal, i)
	if refused {
		g.lastRefusal = time.Now()
	}
	return true
}

// remove removes a waiter from a line. The caller holds the mutex.
func (g *admissionQueue) remove(principal string, i int) {
	g.waiting--
	if g.lines[principal] = slices.Delete(g.lines[principal], i, i+1); len(g.lines[principal]) > 0 {
		return
	}
	delete(g.lines, principal)
	if at := slices.Index(g.order, principal); at >= 0 {
		g.order = slices.Delete(g.order, at, at+1)
	}
}

// release releases a slot: the next waiter gets it, if there is one.
func (g *admissionQueue) release() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 {
		g.running--
		return
	}
	principal := g.order[0]
	next := g.lines[principal][0]
	g.order = append(slices.Delete(g.order, 0, 1), principal)
	g.remove(principal, 0)
	next.decision <- nil
}

// refusal returns the error for a full queue (H10). Retry-After is a minimum: clients spread their
// retries themselves.
func (g *admissionQueue) refusal() error {
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true,
		Detail: fmt.Sprintf("the server is overloaded: %d %s are running and the queue is full; this request had no effect. Retry it later", g.slots, g.name),
		header: http.Header{
			"Ratelimit-Policy": {strconv.Quote(g.name) + ";q=" + strconv.Itoa(g.slots) + `;qu="concurrent-requests"`},
			"Ratelimit":        {strconv.Quote(g.name) + ";r=0;t=1"},
		},
	}
}
