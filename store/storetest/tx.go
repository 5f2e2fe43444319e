package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// errOnPurpose is the error of an fn that must fail.
var errOnPurpose = errors.New("on purpose")

func txLaws() []law {
	return []law{
		{"keeps_all_that_fn_wrote", txKeeps},
		{"keeps_nothing_of_a_fn_that_fails", txFails},
		{"keeps_nothing_of_a_fn_that_panics", txPanics},
		{"keeps_nothing_of_a_fn_that_ends_its_goroutine", txGoexit},
		{"returns_the_error_of_fn_as_it_is", txError},
		{"reads_back_what_it_wrote", txReadsBack},
		{"has_one_now", txNow},
		{"does_nothing_once_ctx_is_done", txContextDone},
		{"ends_the_waiting_with_ctx", txContextWaiting},
		{"returns_when_fn_runs_no_more", txContextWhileRunning},
		{"keeps_neighbours_apart", txNeighbours},
		{"runs_one_after_another", txSerial},
		{"is_unavailable_once_closed", txClosed},
		{"survives_reopening", txSurvives},
	}
}

func txKeeps(s *subject) {
	w := s.prepare()
	var want everything

	s.write(func(tx store.Tx) (err error) {
		if err := w.touch(tx); err != nil {
			return err
		}
		want, err = w.look(tx.Reader())
		return err
	})

	s.same("what is stored", s.all(w), want)
	s.same("sessions, calls, tasks, workers", []int{len(want.Sessions), len(want.Calls), len(want.Tasks),
		len(want.Workers)}, []int{2, 4, 2, 1})
	s.same("events, messages, chunks, rows, files",
		[]int{len(want.Events), len(want.Messages), len(want.Log), len(want.Deliveries), len(want.Files)}, []int{7, 2,
			2, 2, 4})
	s.same("requests, approvals, spawns", []int{len(want.Requests), len(want.Approvals), len(want.Spawns)},
		[]int{3, 2, 3})
}

func txFails(s *subject) {
	w := s.prepare()
	want := s.all(w)

	s.refused(errOnPurpose, func(tx store.Tx) error {
		if err := w.touch(tx); err != nil {
			return err
		}
		return errOnPurpose
	})

	s.same("what is stored", s.all(w), want)
	s.write(w.touch) // nothing conflicts with it
}

func txPanics(s *subject) {
	w := s.prepare()
	want := s.all(w)

	value := s.panics(func(tx store.Tx) error {
		if err := w.touch(tx); err != nil {
			return err
		}
		panic(errOnPurpose)
	})

	if value != errOnPurpose {
		s.Errorf("got %v out of it, want %v", value, errOnPurpose)
	}
	s.same("what is stored", s.all(w), want)
	s.write(w.touch)
}

// panics runs a transaction and returns the value it panicked with, or nil.
func (s *subject) panics(fn func(store.Tx) error) (value any) {
	defer func() { value = recover() }()
	_ = s.InTx(s.ctx, fn)
	return nil
}

// A test that fails in an fn ends its goroutine.
func txGoexit(s *subject) {
	w := s.prepare()
	want := s.all(w)
	done := make(chan struct{})

	go func() {
		defer close(done)
		_ = s.InTx(s.ctx, func(tx store.Tx) error {
			if err := w.touch(tx); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
	}()
	<-done

	s.same("what is stored", s.all(w), want)
	s.write(w.touch)
}

func txError(s *subject) {
	err := fmt.Errorf("wrapped: %w", errOnPurpose)

	got := s.InTx(s.ctx, func(store.Tx) error { return err })

	if got != err {
		s.Errorf("got %#v, want %#v", got, err)
	}
}

func txReadsBack(s *subject) {
	w := s.prepare()
	id, events := s.session(), s.events(2)

	s.write(func(tx store.Tx) error {
		if err := w.touch(tx); err != nil {
			return err
		}
		if err := tx.Journal().Append(id, events); err != nil {
			return err
		}
		found, err := tx.Journal().Events(id, 1, 0)
		s.same("events", found, events[1:])
		if err != nil {
			return err
		}
		f, err := tx.Files().Get(w.session, "/new/file")
		s.same("content", string(f.Content), "new")
		if err != nil {
			return err
		}
		call, err := tx.Calls().Get(w.call.Key)
		s.same("call", call.Token, w.call.Token)
		if err != nil {
			return err
		}
		row, err := tx.Sessions().Get(w.fresh)
		s.same("epoch and seq", []int64{row.Epoch, row.LastSeq}, []int64{1, 2})
		return err
	})
}

func txNow(s *subject) {
	var first, last time.Time
	s.write(func(tx store.Tx) error {
		first = tx.Now()
		if !tx.Now().Equal(first) {
			s.Errorf("now moved from %v to %v", first, tx.Now())
		}
		return nil
	})
	s.read(func(r store.Reader) error {
		last = r.Now()
		return nil
	})

	if last.Before(first) {
		s.Errorf("the clock went back from %v to %v", first, last)
	}
	for _, now := range []time.Time{first, last} {
		if now.IsZero() || now.Location() != time.UTC || !now.Equal(now.Truncate(time.Microsecond)) {
			s.Errorf("%v is not in UTC and microseconds", now)
		}
	}
}

func txContextDone(s *subject) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	w := s.prepare()
	want := s.all(w)

	err := s.InTx(ctx, func(tx store.Tx) error {
		s.Error("fn was called")
		return w.touch(tx)
	})

	if !errors.Is(err, context.Canceled) {
		s.Errorf("got error %v, want %v", err, context.Canceled)
	}
	s.same("what is stored", s.all(w), want)
}

// The caller's ctx ends while its fn runs. Once InTx has returned, the caller may read what fn
// wrote outside of the Tx.
func txContextWhileRunning(s *subject) {
	for range 20 {
		ctx, cancel := context.WithCancel(s.ctx)
		begun, over := false, false
		err := s.InTx(ctx, func(store.Tx) error {
			begun, over = true, false
			cancel()
			for range 100 {
				runtime.Gosched() // gives a caller that does not wait for fn the time to return
			}
			over = true
			return nil
		})
		cancel()
		if begun != over || err != nil && !errors.Is(err, context.Canceled) {
			s.Fatalf("fn begun %t, over %t when InTx returned %v", begun, over, err)
		}
	}
}

// While one transaction is in its fn another one waits, and its ctx ends.
func txContextWaiting(s *subject) {
	w := s.prepare()
	before := s.all(w)
	finish := s.paused(func(store.Tx) error { return nil })
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
	defer cancel()

	err := s.within(func() error { return s.InTx(ctx, w.touch) })

	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
	}
	if err := finish(); err != nil {
		s.Errorf("the transaction it waited for: %v", err)
	}
	s.write(func(store.Tx) error { return nil }) // after pending work
	after := s.all(w)
	if len(after.Sessions) == len(before.Sessions) {
		s.same("what is stored", after, before) // in doubt, but all or nothing
	} else {
		s.same("events", len(after.Events), len(before.Events)+4)
	}
}

// Every other goroutine fails, after it has written.
func txNeighbours(s *subject) {
	const rounds = 10
	shared := s.session()

	s.together(nParallel, func(i int) error {
		for round := range rounds {
			events := s.events(1)
			events[0].Actor = fmt.Sprint(i)
			err := s.InTx(s.ctx, func(tx store.Tx) error {
				if err := tx.Journal().Append(shared, events); err != nil {
					return err
				}
				if _, err := tx.Files().Put(shared, store.File{Path: fmt.Sprintf("/%d/%d", i, round)}); err != nil {
					return err
				}
				if i%2 == 1 {
					return errOnPurpose
				}
				return nil
			})
			if i%2 == 1 && !errors.Is(err, errOnPurpose) || i%2 == 0 && err != nil {
				return fmt.Errorf("transaction %d of %d: %w", round, i, err)
			}
		}
		return nil
	})

	s.checkSeqs(shared, nParallel/2*rounds)
	for _, e := range s.journal(shared) {
		if len(e.Actor) > 0 && (e.Actor[len(e.Actor)-1]-'0')%2 == 1 {
			s.Errorf("an event of %s, which failed, is in the journal", e.Actor)
		}
	}
	s.same("files", len(s.paths(shared, "/", true)), nParallel/2*(rounds+1))
}

// No other transaction changes what one has read before that one has written.
func txSerial(s *subject) {
	const rounds = 10
	session := s.session()

	s.together(nParallel, func(int) error {
		for range rounds {
			err := s.InTx(s.ctx, func(tx store.Tx) error {
				f, err := tx.Files().Get(session, "/counter")
				if err != nil && !errors.Is(err, perdure.NotFound) {
					return err
				}
				_, err = tx.Files().Put(session, store.File{Path: "/counter", Content: append(f.Content, '|')})
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})

	s.same("count", len(s.file(session, "/counter").Content), nParallel*rounds)
}

func txClosed(s *subject) {
	s.session()

	if err := s.Close(); err != nil {
		s.Fatal(err)
	}

	called := false
	got := map[string]error{
		"transaction": s.InTx(s.ctx, func(store.Tx) error { called = true; return nil }),
		"view":        s.View(s.ctx, func(store.Reader) error { called = true; return nil }),
		"watch":       s.Watch(s.ctx, "session_1", 0, func(store.Frame) error { called = true; return nil }),
	}
	for what, err := range got {
		if !errors.Is(err, perdure.Unavailable) {
			s.Errorf("%s: got error %v, want %v", what, err, perdure.Unavailable)
		}
	}
	s.same("fn was called", called, false)
	s.Publish(store.Frame{Session: "session_1"})
}

func txSurvives(s *subject) {
	w := s.prepare()
	s.write(w.touch)
	want := s.all(w)

	s.reopen()

	s.same("what is stored", s.all(w), want)
}
