package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// maxBatch bounds how many transactions wait for one another's statements before they share a commit.
const maxBatch = 256

// The statements around a batch and around each transaction in it.
const (
	beginBatch    = `BEGIN IMMEDIATE`
	commitBatch   = `COMMIT`
	rollbackBatch = `ROLLBACK`
	beginOne      = `SAVEPOINT one`
	undoOne       = `ROLLBACK TO one`
	endOne        = `RELEASE one`
)

// writer is the one goroutine that writes. It takes all transactions that wait, runs each in a savepoint of
// one database transaction, commits them with one sync, and only then answers.
type writer struct {
	conn    *connection // only touched in run
	hand    hand        // only touched in run
	dialect sqlstore.Dialect
	notify  func(perdure.SessionID)
	// queue has no capacity: a transaction waits in its caller until the writer takes it, so the queue is
	// bounded by the callers, and what was not taken never runs.
	queue   chan *request
	closing chan struct{} // closed to end run
	stopped chan struct{} // closed when run has returned
	mover   *mover        // nil: the writer moves the log itself
	log     string        // the path of the log's file
	scarce  chan struct{} // capacity 1: somebody misses the space that the log's file may take

	cause        atomic.Pointer[error] // why nothing is written any more
	broke        chan struct{}         // closed when cause is set
	transactions atomic.Int64
	commits      atomic.Int64
}

// request is one transaction and its way back.
type request struct {
	fn       func(store.Tx) error
	outcome  outcome
	appended []perdure.SessionID
	answer   chan outcome // capacity 1: the writer does not wait for a caller that left

	mu   sync.Mutex // held while fn runs
	left bool       // guarded by mu; the caller has gone: fn does not run any more
}

// run is fn, unless its caller has gone.
func (r *request) run(tx store.Tx) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return fmt.Errorf("%w: its caller has gone", perdure.Unavailable)
	}
	return r.fn(tx)
}

// leave keeps fn from running from now on, and waits for one that runs: what fn writes for its caller is the caller's again.
func (r *request) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
}

func newWriter(conn *connection, dialect sqlstore.Dialect, notify func(perdure.SessionID)) *writer {
	return &writer{
		conn: conn, dialect: dialect, notify: notify,
		queue: make(chan *request), scarce: make(chan struct{}, 1),
		closing: make(chan struct{}), stopped: make(chan struct{}), broke: make(chan struct{}),
	}
}

// do hands a transaction to the writer and waits for the commit.
func (w *writer) do(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	req := &request{fn: fn, answer: make(chan outcome, 1)}
	select {
	case w.queue <- req:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closing:
		return errClosed
	}
	select {
	case out := <-req.answer:
		return out.deliver()
	case <-ctx.Done():
		req.leave()
		return ctx.Err()
	}
}

// broken returns why nothing is written any more, or nil.
func (w *writer) broken() error {
	if cause := w.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// breakDown makes err, as a Storage error, the answer to everything from now on. The first one stays.
func (w *writer) breakDown(err error) error {
	err = w.dialect.Explain(err)
	if !errors.Is(err, perdure.Storage) {
		err = fmt.Errorf("%w: %w", perdure.Storage, err)
	}
	if w.cause.CompareAndSwap(nil, &err) {
		close(w.broke)
	}
	return err
}

// run serves until closing. What it has taken it also answers.
func (w *writer) run() {
	defer close(w.stopped)
	defer w.hand.rest()
	defer w.mover.wait()
	for {
		select {
		case <-w.closing:
			return
		case req := <-w.queue:
			w.serve(w.gather(req))
			w.tend()
		case <-w.scarce:
			w.cut()
		}
	}
}

// shorten asks for the log's file to be cut, and does not wait for that.
func (w *writer) shorten() {
	select {
	case w.scarce <- struct{}{}:
	default:
	}
}

// gather takes what waits beside the first. Callers that were just answered get a turn to come back, so
// that a batch holds all of them and not every other one.
func (w *writer) gather(first *request) []*request {
	runtime.Gosched()
	batch := []*request{first}
	for len(batch) < maxBatch {
		select {
		case req := <-w.queue:
			batch = append(batch, req)
		default:
			return batch
		}
	}
	return batch
}

// serve commits a batch and answers it. When the database refused something, for want of room or by a fault
// of one transaction, each runs again alone, so that only the one that it is about fails.
func (w *writer) serve(batch []*request) {
	err := w.broken()
	if err == nil {
		err = w.commit(batch)
	}
	if err != nil && len(batch) > 1 && w.broken() == nil && !errors.Is(err, perdure.Unavailable) {
		for i := range batch {
			w.serve(batch[i : i+1])
		}
		return
	}
	for _, req := range batch {
		if err != nil {
			req.outcome = req.outcome.spoiled(err)
		}
		if req.outcome.kept() {
			w.transactions.Add(1)
			for _, id := range req.appended {
				w.notify(id)
			}
		}
		req.answer <- req.outcome
	}
}

// commit runs a batch in one database transaction. After an error nothing of it is stored or, once the
// writer is broken, nobody knows.
func (w *writer) commit(batch []*request) error {
	err := w.exec(beginBatch)
	switch {
	case isBusy(err):
		return w.dialect.Explain(err)
	case err != nil:
		return w.breakDown(err)
	}
	kept := false
	for _, req := range batch {
		err := w.runOne(req, len(batch) == 1)
		if err != nil {
			w.rollback()
		}
		switch {
		case mustStop(err):
			return w.breakDown(err)
		case err != nil:
			return w.dialect.Explain(err)
		}
		kept = kept || req.outcome.kept()
	}
	if !kept {
		w.rollback()
		return nil
	}
	err = w.exec(commitBatch)
	if err != nil {
		w.rollback()
	}
	switch {
	case isFull(err): // a write before the commit record failed, so it is not there
		return w.dialect.Explain(err)
	case err != nil:
		return w.breakDown(err)
	}
	w.commits.Add(1)
	return nil
}

// runOne runs one transaction in a savepoint and undoes it unless its fn returned nil. Alone it needs none: what is
// not kept is rolled back with its batch. An error is one of the database, after which the batch cannot go on.
func (w *writer) runOne(req *request, alone bool) error {
	if !alone {
		if err := w.exec(beginOne); err != nil {
			return err
		}
	}
	tx := sqlstore.New(context.Background(), w.conn, w.dialect)
	req.outcome, req.appended = w.hand.run(req.run, tx), tx.Appended()
	if err := tx.Failure(); err != nil || alone {
		return err
	}
	if !req.outcome.kept() {
		if err := w.exec(undoOne); err != nil {
			return err
		}
	}
	return w.exec(endOne)
}

// rollback ends a transaction that failed. SQLite has often done so itself, and then this is an error that
// says nothing; where it fails otherwise, the next BEGIN fails too, and that is looked at.
func (w *writer) rollback() {
	_ = w.exec(rollbackBatch)
}

func (w *writer) exec(query string) error {
	_, err := w.conn.ExecContext(context.Background(), query)
	return err
}
