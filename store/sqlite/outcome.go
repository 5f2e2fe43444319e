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

// run calls fn in a goroutine of its own, so that an fn which ends its goroutine does not end the writer.
func run(fn func(store.Tx) error, tx store.Tx) outcome {
	var out outcome
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { out.panicked = recover() }()
		out.err = fn(tx)
		out.returned = true
	}()
	<-done
	return out
}

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
	case !o.returned:
		runtime.Goexit()
	}
	return o.err
}
