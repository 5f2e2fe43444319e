package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func viewLaws() []law {
	return []law{
		{"sees_a_transaction_whole_once_it_is_committed", viewSeesCommits},
		{"is_one_snapshot", viewIsOneSnapshot},
		{"does_not_wait_for_a_transaction", viewBesideWrite},
		{"runs_beside_other_views", viewBesideViews},
		{"returns_the_error_of_fn_as_it_is", viewError},
		{"does_nothing_once_ctx_is_done", viewContextDone},
		{"sees_whole_transactions_of_concurrent_writers", viewConcurrent},
		{"tells_its_schema_where_it_has_one", viewSchema},
	}
}

// paused starts a transaction that calls fn and then waits. finish lets it end and returns its
// error.
func (s *subject) paused(fn func(store.Tx) error) (finish func() error) {
	s.Helper()
	inside, leave, done := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	release := sync.OnceFunc(func() { close(leave) })
	s.Cleanup(release) // even if the law fails meanwhile
	go func() {
		done <- s.InTx(s.ctx, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			select {
			case inside <- struct{}{}:
			default: // runs again
			}
			<-leave
			return nil
		})
	}()
	select {
	case <-inside:
	case err := <-done:
		s.Fatalf("transaction: %v", err)
	case <-s.ctx.Done():
		s.Fatal("the transaction did not begin")
	}
	return func() error {
		release()
		return <-done
	}
}

// allMeanwhile returns the store's content about the things, for a store whose views may wait for a
// transaction.
func (s *subject) allMeanwhile(w things) (found everything) {
	s.Helper()
	err := s.within(func() error {
		return s.View(s.ctx, func(r store.Reader) (err error) {
			found, err = w.look(r)
			return err
		})
	})
	if err != nil {
		s.Fatal(err)
	}
	return found
}

func viewSeesCommits(s *subject) {
	w := s.prepare()
	before := s.all(w)

	finish := s.paused(w.touch)
	during := s.allMeanwhile(w)
	err := finish()
	after := s.all(w)

	if err != nil {
		s.Fatal(err)
	}
	s.same("what is stored before the commit", during, before)
	s.same("sessions and events after", []int{len(after.Sessions), len(after.Events)}, []int{2, len(before.Events) + 4})
}

func viewIsOneSnapshot(s *subject) {
	w := s.prepare()
	want := s.all(w)

	s.read(func(r store.Reader) error {
		if _, err := r.Sessions().Get(w.session); err != nil { // the snapshot is taken at the first read at the latest
			return err
		}
		written := make(chan error, 1)
		go func() { written <- s.InTx(s.ctx, w.touch) }()
		if err := <-written; err != nil {
			return err
		}
		got, err := w.look(r)
		s.same("what the view sees after a commit", got, want)
		return err
	})

	s.same("sessions after the view", len(s.all(w).Sessions), 2)
}

func viewBesideWrite(s *subject) {
	w := s.prepare()
	want := s.all(w)
	finish := s.paused(w.touch)

	for range 3 {
		s.same("what is stored", s.allMeanwhile(w), want)
	}

	if err := finish(); err != nil {
		s.Fatal(err)
	}
}

// Two views are in their fn at the same time.
func viewBesideViews(s *subject) {
	id := s.session()
	meet := make(chan struct{})

	s.together(2, func(i int) error {
		return s.View(s.ctx, func(r store.Reader) error {
			if _, err := r.Sessions().Get(id); err != nil {
				return err
			}
			if i == 0 {
				select {
				case <-meet:
				case <-s.ctx.Done():
					return s.ctx.Err()
				}
				return nil
			}
			select {
			case meet <- struct{}{}:
			case <-s.ctx.Done():
			}
			return nil
		})
	})
}

func viewError(s *subject) {
	err := fmt.Errorf("wrapped: %w", errOnPurpose)

	got := s.View(s.ctx, func(store.Reader) error { return err })

	if got != err {
		s.Errorf("got %#v, want %#v", got, err)
	}
}

func viewContextDone(s *subject) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()

	err := s.View(ctx, func(store.Reader) error {
		s.Error("fn was called")
		return nil
	})

	if !errors.Is(err, context.Canceled) {
		s.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// A writer repeatedly adds an event to each of two sessions: no view sees one without the other.
func viewConcurrent(s *subject) {
	const rounds = 100
	one, other := s.session(), s.session()

	s.together(5, func(i int) error {
		for range rounds {
			if i > 0 {
				if err := s.View(s.ctx, func(r store.Reader) error { return alike(r, one, other) }); err != nil {
					return err
				}
				continue
			}
			mine, theirs := s.events(1), s.events(1)
			err := s.InTx(s.ctx, func(tx store.Tx) error {
				if err := tx.Journal().Append(one, mine); err != nil {
					return err
				}
				return tx.Journal().Append(other, theirs)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})

	s.checkSeqs(one, rounds)
	s.checkSeqs(other, rounds)
}

// alike requires that two journals have the same length, both in their rows and in their events.
func alike(r store.Reader, one, other perdure.SessionID) error {
	first, err := r.Sessions().Get(one)
	if err != nil {
		return err
	}
	last, err := r.Journal().Events(other, first.LastSeq-1, 0)
	if err != nil {
		return err
	}
	second, err := r.Sessions().Get(other)
	if err != nil {
		return err
	}
	if first.LastSeq != second.LastSeq || first.LastSeq > 0 && len(last) != 1 {
		return fmt.Errorf("one has %d events, the other %d, of which %d come after the first but one", first.LastSeq,
			second.LastSeq, len(last))
	}
	return nil
}

func viewSchema(s *subject) {
	s.read(func(r store.Reader) error {
		has, ok := r.(store.SchemaReader)
		if !ok {
			return nil
		}
		stored, known, err := has.Schema()
		if err == nil && (stored < 1 || stored != known) {
			s.Errorf("the schema is %d, the newest known %d", stored, known)
		}
		return err
	})
}
