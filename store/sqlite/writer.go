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

// maxBatch limits how many transactions share one commit.
const maxBatch = 256

// The statements around a batch, and around each transaction in it.
const (
	beginBatch    = `BEGIN IMMEDIATE`
	commitBatch   = `COMMIT`
	rollbackBatch = `ROLLBACK`
	beginOne      = `SAVEPOINT one`
	undoOne       = `ROLLBACK TO one`
	endOne        = `RELEASE one`
)

// writer is the one goroutine that writes. It collects all waiting transactions, runs each in a
// savepoint of one database transaction, commits them with one sync, and only then answers their
// callers.
type writer struct {
	conn     *connection // only used in run
	txRunner txRunner    // only used in run
	dialect  sqlstore.Dialect
	notify   func(perdure.SessionID)
	// queue has no capacity: a transaction waits in its caller until the writer receives it. The
	// number of callers therefore bounds the queue, and a transaction that was not received never
	// runs.
	queue        chan *request
	closing      chan struct{} // closed to end run
	stopped      chan struct{} // closed when run has returned
	checkpointer *checkpointer // nil: the writer moves the log itself
	log          string        // the path of the log's file
	truncate     chan struct{} // capacity 1: the space of the log's file is needed

	cause        atomic.Pointer[error] // the first failure, after which nothing is written
	broke        chan struct{}         // closed when cause is set
	transactions atomic.Int64
	commits      atomic.Int64
}

// request is one transaction, with the channel for its outcome.
type request struct {
	fn       func(store.Tx) error
	outcome  outcome
	appended []perdure.SessionID
	answer   chan outcome // capacity 1: the writer does not wait for a caller that left

	mu        sync.Mutex // held while fn runs
	abandoned bool       // guarded by mu; the caller has returned, and fn no longer runs
}

// run calls fn, unless its caller has returned.
func (r *request) run(tx store.Tx) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abandoned {
		return fmt.Errorf("%w: its caller has returned", perdure.Unavailable)
	}
	return r.fn(tx)
}

// abandon prevents fn from running from now on, and waits for a running fn. After that, only the
// caller uses the variables that fn writes.
func (r *request) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.abandoned = true
}

func newWriter(conn *connection, dialect sqlstore.Dialect, notify func(perdure.SessionID)) *writer {
	return &writer{
		conn: conn, dialect: dialect, notify: notify,
		queue: make(chan *request), truncate: make(chan struct{}, 1),
		closing: make(chan struct{}), stopped: make(chan struct{}), broke: make(chan struct{}),
	}
}

// do passes a transaction to the writer and waits for its commit.
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
		req.abandon()
		return ctx.Err()
	}
}

// broken returns the failure after which nothing is written, or nil.
func (w *writer) broken() error {
	if cause := w.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// breakDown makes err, as a Storage error, the answer to every later transaction. Only the first
// call has this effect.
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

// run serves requests until closing is closed. It answers each request that it has received.
func (w *writer) run() {
	defer close(w.stopped)
	defer w.txRunner.close()
	defer w.checkpointer.wait()
	for {
		select {
		case <-w.closing:
			return
		case req := <-w.queue:
			w.serve(w.gather(req))
			w.maintainLog()
		case <-w.truncate:
			w.truncateLog()
		}
	}
}

// requestTruncate requests that the log's file is truncated, and does not wait for that.
func (w *writer) requestTruncate() {
	select {
	case w.truncate <- struct{}{}:
	default:
	}
}

// gather collects the requests that wait along with the first one. Callers that were just answered
// get a turn to send their next request, so that a batch contains all callers and not every other
// one.
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

// serve commits a batch and answers its callers. If the database refused something, for lack of
// space or through the fault of one transaction, each transaction runs again alone, so that only
// the one at fault fails.
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
			req.outcome = req.outcome.withError(err)
		}
		if req.outcome.commits() {
			w.transactions.Add(1)
			for _, id := range req.appended {
				w.notify(id)
			}
		}
		req.answer <- req.outcome
	}
}

// commit runs a batch in one database transaction. After an error nothing of the batch is stored
// or, if the writer is broken, this is unknown.
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
		kept = kept || req.outcome.commits()
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
	case isFull(err): // a write before the commit record failed, so the record does not exist
		return w.dialect.Explain(err)
	case err != nil:
		return w.breakDown(err)
	}
	w.commits.Add(1)
	return nil
}

// runOne runs one transaction in a savepoint, and undoes it unless its fn returned nil. A
// transaction that is alone in its batch needs no savepoint, because its batch is rolled back. An
// error is one of the database, after which the batch cannot continue.
func (w *writer) runOne(req *request, alone bool) error {
	if !alone {
		if err := w.exec(beginOne); err != nil {
			return err
		}
	}
	tx := sqlstore.New(context.Background(), w.conn, w.dialect)
	req.outcome, req.appended = w.txRunner.run(req.run, tx), tx.Appended()
	if err := tx.Failure(); err != nil || alone {
		return err
	}
	if !req.outcome.commits() {
		if err := w.exec(undoOne); err != nil {
			return err
		}
	}
	return w.exec(endOne)
}

// rollback ends a failed transaction. SQLite has often done so itself, and then returns an error
// without meaning. If the rollback fails otherwise, the next BEGIN fails too, and its error is
// handled.
func (w *writer) rollback() {
	_ = w.exec(rollbackBatch)
}

func (w *writer) exec(query string) error {
	_, err := w.conn.ExecContext(context.Background(), query)
	return err
}
