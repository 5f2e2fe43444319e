package sqlite

import (
	"errors"
	"runtime"

	"github.com/perdure/perdure/store"
)

// outcome is how the fn of a transaction ended. If it neither returned nor panicked, it ended its
// goroutine, as t.FailNow does.
type outcome struct {
	returned bool
	err      error
	panicked any
}

// txRunner runs the fns of transactions, one at a time, in a goroutine next to the writer's, so
// that an fn that ends its goroutine does not end the writer. One goroutine serves many
// transactions, because its stack then grows only once. Only the writer uses a hand. The zero value
// is ready to use.
type txRunner struct {
	jobs  chan job     // no capacity: the writer waits for the result anyway; nil: no goroutine is running
	ended chan outcome // capacity 1: the goroutine may end right after its result
}

type job struct {
	fn func(store.Tx) error
	tx store.Tx
}

// run calls fn and waits until it ends.
func (h *txRunner) run(fn func(store.Tx) error, tx store.Tx) outcome {
	if h.jobs == nil {
		h.jobs, h.ended = make(chan job), make(chan outcome, 1)
		go serve(h.jobs, h.ended)
	}
	h.jobs <- job{fn, tx}
	out := <-h.ended
	if out.exited() {
		h.jobs = nil
	}
	return out
}

// close ends the goroutine. No fn is running then.
func (h *txRunner) close() {
	if h.jobs != nil {
		close(h.jobs)
	}
}

func serve(jobs <-chan job, ended chan<- outcome) {
	for j := range jobs {
		j.run(ended)
	}
}

func (j job) run(ended chan<- outcome) {
	var out outcome
	defer func() {
		out.panicked = recover()
		ended <- out
	}()
	out.err = j.fn(j.tx)
	out.returned = true
}

// exited reports whether fn ended its goroutine.
func (o outcome) exited() bool { return !o.returned && o.panicked == nil }

// commits reports whether the writes of fn are to be committed.
func (o outcome) commits() bool { return o.returned && o.err == nil }

// withError returns the outcome after an error of the database. fn's own error stays if it wraps
// err.
func (o outcome) withError(err error) outcome {
	if o.panicked != nil || o.returned && errors.Is(o.err, err) {
		return o
	}
	return outcome{returned: true, err: err}
}

// deliver ends the caller's wait as fn ended: with its error, its panic, or the end of the
// goroutine.
func (o outcome) deliver() error {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.exited():
		runtime.Goexit()
	}
	return o.err
}
