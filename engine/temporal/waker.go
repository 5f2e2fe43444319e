package temporal

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure"
)

// The bounds of the waker.
const (
	wakers       = 8 // how many requests to Temporal are under way at most
	wakeTimeout  = 5 * time.Second
	wakeBackOff  = 100 * time.Millisecond
	wakeMostWait = 10 * time.Second
)

// taskTimeout is how long Temporal waits for a process that was given a step of a workflow. A step
// takes milliseconds; a process that is paused, but still connected, holds it for this time.
const taskTimeout = 3 * time.Second

// topic is what the waker has to look at: one session, or the queued runs of one or of all.
type topic struct {
	runs    bool
	session perdure.SessionID
}

// waker tells Temporal of work. What it was asked is a set: the same session again costs nothing
// while it waits. What fails is tried again with increasing waits; what is in the set when the
// process ends is found by the reconciler.
type waker struct {
	do  func(ctx context.Context, t topic) error
	log *slog.Logger

	mu     sync.Mutex
	filled *sync.Cond       // of mu; ready has an entry, or closed is set
	topics map[topic]*asked // guarded by mu; everything that is not done
	ready  []topic          // guarded by mu; the topics to take, the oldest first
	closed bool             // guarded by mu
}

// asked is the state of one topic.
type asked struct {
	busy     bool // a goroutine has it
	again    bool // it was asked again meanwhile
	failures int  // in a row
}

func newWaker(do func(context.Context, topic) error, log *slog.Logger) *waker {
	w := &waker{do: do, log: log, topics: map[topic]*asked{}}
	w.filled = sync.NewCond(&w.mu)
	return w
}

// add puts a topic into the set. It does not block.
func (w *waker) add(t topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.topics[t]; a != nil {
		a.again = a.busy
		return
	}
	w.topics[t] = &asked{}
	w.push(t)
}

// push makes a topic ready. w.mu must be held.
func (w *waker) push(t topic) {
	w.ready = append(w.ready, t)
	w.filled.Signal()
}

// run handles topics until ctx ends, then waits for those under way.
func (w *waker) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = true
		w.filled.Broadcast()
	})()
	var group sync.WaitGroup
	for range wakers {
		group.Go(func() {
			for {
				t, ok := w.take()
				if !ok {
					return
				}
				w.done(t, w.try(ctx, t))
			}
		})
	}
	group.Wait()
}

// take waits for a topic. false: the waker stops.
func (w *waker) take() (topic, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.ready) == 0 && !w.closed {
		w.filled.Wait()
	}
	if w.closed {
		return topic{}, false
	}
	t := w.ready[0]
	w.ready = w.ready[1:]
	w.topics[t].busy = true
	return t, true
}

// try handles one topic.
func (w *waker) try(ctx context.Context, t topic) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	return w.do(ctx, t)
}

// done removes a topic, or has it handled again.
func (w *waker) done(t topic, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.topics[t]
	a.busy = false
	if err == nil {
		a.failures = 0
		if a.again {
			a.again = false
			w.push(t)
			return
		}
		delete(w.topics, t)
		return
	}
	a.again = false
	if a.failures++; a.failures == 1 {
		w.log.Warn("Temporal could not be told of work; it is tried again.", "session", t.session, "err", err)
	}
	time.AfterFunc(doubled(wakeBackOff, a.failures-1, wakeMostWait), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.push(t)
	})
}

// starter starts the workflow of a session or task, or signals the one that runs.
type starter struct {
	names names
	send  func(ctx context.Context, id string, msg wake, workflow string, state any) error
}

// newStarter returns a starter that uses a client.
func newStarter(n names, c client.Client) starter {
	return starter{n, func(ctx context.Context, id string, msg wake, workflow string, state any) error {
		o := client.StartWorkflowOptions{ID: id, TaskQueue: n.general(), WorkflowTaskTimeout: taskTimeout}
		_, err := c.SignalWithStartWorkflow(ctx, id, wakeSignal, msg, o, workflow, state)
		return err
	}}
}

// session says that a session waits for a driver. One that never had a grant may have the id of a
// deleted session, whose workflow knows a longer journal.
func (s starter) session(ctx context.Context, w WaitingSession) error {
	msg := wake{Seq: w.Seq, Grant: w.Grant, Queue: w.Queue, Home: w.Home, Due: w.Orphaned || w.Grant == 0}
	return s.send(ctx, s.names.session(w.ID), msg, sessionType, sessionState{ID: string(w.ID)})
}

// run says that a task waits for a process.
func (s starter) run(ctx context.Context, w WaitingRun) error {
	msg := wake{Grant: w.Grant, Queue: w.Queue, Home: w.Home}
	return s.send(ctx, s.names.run(w.ID), msg, runType, runState{Task: string(w.ID)})
}
