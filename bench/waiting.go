package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// roleWait is a process with detached calls that wait: it reports their memory, lists them and ends
// them all.
const roleWait = "wait"

// callsOfWaiting is the maximum number of such calls in a session, in messages of waitingStep.
const (
	callsOfWaiting = 100
	waitingStep    = 50
)

// lists is how often the calls are listed, and one of them is read.
const lists = 20

// Further output of roleWait, in nanoseconds: the medians of a list of all calls, of a read of one
// task and of a commit of one event; then the time in which all calls were ended.
const (
	saidLists = "lists %d %d %d"
	saidEnds  = "ends %d"
)

// measureWaiting measures the cost of waiting detached calls, in child processes: memory, the time
// to list them, and the time from the cancel of all to the last end. The limits on them are off.
// Ending 10,000 calls takes a minute, so that it is done only on request.
func measureWaiting(ctx context.Context, l *runner) error {
	if err := l.waiting(ctx, "waiting_small", l.count(1_000, 20), true); err != nil {
		return err
	}
	if l.onPostgres() { // as for parked runs
		return nil
	}
	return l.waiting(ctx, "waiting_large", l.count(10_000, 60), l.quick || l.long)
}

func (l *runner) waiting(ctx context.Context, name string, calls int, ends bool) error {
	l.progressf("waiting, %d calls", calls)
	at, err := l.databaseURL(ctx, "waiting")
	if err != nil {
		return err
	}
	c, err := startChild(ctx, l.startRole(roleWait, at, calls))
	if err != nil {
		return err
	}
	defer c.kill()
	began := time.Now()
	var n, list, read, commit, end int64
	var all memoryUse
	_, err = c.readLines(ctx, saidWeight, &n, &all.heap, &all.stacks, &all.resident, &all.goroutines, &all.busy)
	if err == nil {
		_, err = c.readLines(ctx, saidLists, &list, &read, &commit)
	}
	if err == nil && ends {
		_, err = c.readLines(ctx, saidEnds, &end)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		l.report.missing(name, err)
		return nil
	}
	l.progressf("waiting, %d calls took %.1fs", calls, time.Since(began).Seconds())
	l.report.set(name, "calls", float64(n))
	l.reportWeight(name, n, all)
	l.report.ratio(name, strings.Replace(name, "waiting", "parked", 1), "heap_and_stack_bytes", "parked_memory_ratio")
	l.report.set(name, "list_us", micros(time.Duration(list)))
	l.report.set(name, "read_us", micros(time.Duration(read)))
	l.report.set(name, "list_read_ratio", float64(list)/float64(n)/float64(read))
	l.report.set(name, "commit_us", micros(time.Duration(commit)))
	if ends {
		l.report.set(name, "cancel_all_us", micros(time.Duration(end)))
		l.report.set(name, "cancel_commit_ratio", float64(end)/float64(n)/float64(commit))
	}
	return nil
}

// runWaitRole parks calls, measures their memory, and ends them.
func runWaitRole(ctx context.Context, at engineRigConfig, calls int, out io.Writer) error {
	var clock endClock
	at.Soft, at.Wrap = laneBudget, clock.wrap
	w, err := openEngineRig(ctx, at)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.warm(ctx); err != nil {
		return err
	}
	var ids []perdure.SessionID
	grown, err := w.grown(ctx, roleWait, calls, func() (err error) {
		ids, err = w.linger(ctx, calls)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, saidWeight+"\n", calls, grown.heap, grown.stacks, grown.resident, grown.goroutines, grown.busy)
	list, read, err := w.lists(ctx, calls)
	if err != nil {
		return err
	}
	commits, err := w.eventCommits(ctx, 10*lists)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, saidLists+"\n", int64(list.at(0.5)), int64(read.at(0.5)), int64(commits.at(0.5)))
	stop, err := startProfiles(os.Getenv(childProfiles), fmt.Sprintf("%s_end_%d", roleWait, calls))
	if err != nil {
		return err
	}
	end, err := w.endAll(ctx, &clock, ids, calls)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	fmt.Fprintf(out, saidEnds+"\n", int64(end))
	<-ctx.Done()
	return nil
}

// linger makes calls that are detached and wait, in a few sessions concurrently, and returns the
// sessions.
func (w *engineRig) linger(ctx context.Context, calls int) ([]perdure.SessionID, error) {
	shares := batches(calls, callsOfWaiting)
	found := make([][]perdure.SessionID, sessionsAOnce)
	_, err := maxConcurrent(sessionsAOnce, func(worker int) error {
		for n := range shares {
			id, err := w.session(ctx, agent(false))
			if err != nil {
				return err
			}
			if err := w.turn(ctx, id, order{tool: "linger", all: n, step: min(n, waitingStep)}); err != nil {
				return err
			}
			found[worker] = append(found[worker], id)
		}
		return nil
	})
	return slices.Concat(found...), err
}

// lists lists all tasks, and reads one, several times.
func (w *engineRig) lists(ctx context.Context, calls int) (list, read sample, err error) {
	for range lists {
		began := time.Now()
		tasks, err := w.Tasks().List(ctx, "")
		if err != nil {
			return nil, nil, err
		}
		list = append(list, time.Since(began))
		if len(tasks) != calls {
			return nil, nil, fmt.Errorf("%d tasks were listed, want %d", len(tasks), calls)
		}
		began = time.Now()
		if _, err := w.Tasks().Get(ctx, tasks[len(tasks)/2].ID); err != nil {
			return nil, nil, err
		}
		read = append(read, time.Since(began))
	}
	return list, read, nil
}

// endAll cancels the calls of all sessions, a few sessions concurrently, and returns the time until
// the last end was committed.
func (w *engineRig) endAll(ctx context.Context, clock *endClock, ids []perdure.SessionID,
	calls int) (time.Duration, error) {
	ended := clock.after(calls)
	began := time.Now()
	next := make(chan perdure.SessionID, len(ids)) // capacity for all
	for _, id := range ids {
		next <- id
	}
	close(next)
	_, err := maxConcurrent(sessionsAOnce, func(int) error {
		for id := range next {
			if _, err := w.Tasks().CancelAll(ctx, id, "bench", "it is measured"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	select {
	case <-ended:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(childPatience):
		return 0, fmt.Errorf("the calls had not all ended within %s", childPatience)
	}
}

// endClock counts tasks whose end was committed.
type endClock struct {
	mu    sync.Mutex
	n     int           // guarded by mu
	want  int           // guarded by mu; 0: nothing waits
	ended chan struct{} // guarded by mu; closed when n is want
}

// after returns a channel that is closed when n more tasks have ended.
func (c *endClock) after(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.want, c.ended = 0, n, make(chan struct{})
	return c.ended
}

// add adds ends.
func (c *endClock) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.n
	c.n += n
	if before < c.want && c.n >= c.want {
		close(c.ended)
	}
}

// wrap makes the store report ends.
func (c *endClock) wrap(s store.Store) store.Store { return &endStore{Store: s, clock: c} }

// endStore is a store that reports the commits by which tasks ended.
type endStore struct {
	store.Store
	clock *endClock
}

// InTx runs fn and reports, after its commit, how many tasks it ended.
func (s *endStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var ends int
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		seen := endTx{Tx: tx}
		err := fn(&seen)
		ends = seen.ends
		return err
	})
	if err == nil && ends > 0 {
		s.clock.add(ends)
	}
	return err
}

// endTx counts the tasks that a transaction ends.
type endTx struct {
	store.Tx
	ends int
}

// endTxTasks overrides a part of one noun.
type endTxTasks struct {
	store.Tasks
	*endTx
}

func (tx *endTx) Tasks() store.Tasks { return endTxTasks{tx.Tx.Tasks(), tx} }

// endTxReader reads what the transaction shows.
type endTxReader struct {
	store.Reader
	tx *endTx
}

func (tx *endTx) Reader() store.Reader { return endTxReader{tx.Tx.Reader(), tx} }

func (r endTxReader) Tasks() store.TaskReader { return r.tx.Tasks() }

// Update updates and counts.
func (tx endTxTasks) Update(id perdure.SessionID, task perdure.TaskID,
	u perdure.TaskUpdate) (perdure.TaskChange, error) {
	change, err := tx.Tasks.Update(id, task, u)
	if err == nil && u.State.Terminal() {
		tx.ends++
	}
	return change, err
}
