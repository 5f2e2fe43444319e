package sqlite

import (
	"errors"
	"runtime"

	"github.com/perdure/perdure/store"
)

// outcome is how the fn of a transaction ended. Neither returned nor panicked means that it ended its
// goroutine, as t.FailNow does.
type outcome struct {
	returned bool
	err      error
	panicked any
}

// hand runs the fns of transactions, one at a time, in a goroutine beside the writer's: an fn that ends its goroutine
// does not end the writer. It is only touched by the writer, and its goroutine serves many, so that its stack has grown
// once. The zero value works.
type hand struct {
	jobs  chan job     // no capacity: the writer waits for the answer anyway; nil: no goroutine serves
	ended chan outcome // capacity 1: the goroutine may end with its answer
}

type job struct {
	fn func(store.Tx) error
	tx store.Tx
}

// run calls fn and waits for its end.
func (h *hand) run(fn func(store.Tx) error, tx store.Tx) outcome {
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

// rest ends the goroutine. Nothing is in work.
func (h *hand) rest() {
	if h.jobs != nil {
		close(h.jobs)
	}
}

func serve(jobs <-chan job, ended chan<- outcome) {
	for j := range jobs {
		j.carry(ended)
	}
}

func (j job) carry(ended chan<- outcome) {
	var out outcome
	defer func() {
		out.panicked = recover()
		ended <- out
	}()
	out.err = j.fn(j.tx)
	out.returned = true
}

// exited reports that fn ended its goroutine.
func (o outcome) exited() bool { return !o.returned && o.panicked == nil }

// kept reports whether what fn wrote is to be committed.
func (o outcome) kept() bool { return o.returned && o.err == nil }

// spoiled is the outcome after an error of the database. fn's own words stay where they hold it.
func (o outcome) spoiled(err error) outcome {
	if o.panicked != nil || o.returned && errors.Is(o.err, err) {
		return o
	}
	return outcome{returned: true, err: err}
}

// deliver ends the caller's wait as fn ended: with its error, its panic, or the end of the goroutine.
func (o outcome) deliver() error {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.exited():
		runtime.Goexit()
	}
	return o.err
}
