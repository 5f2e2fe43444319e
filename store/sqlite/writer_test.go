package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

var errTest = errors.New("not this one")

// TestGroupCommit holds the writer until 64 transactions wait, in a synctest bubble, which reports
// when they do.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	const callers, failing, panicking = 64, 7, 11
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := withSession(t, sqlite.Config{Dir: dir})
		before := s.Stats()
		release := held(t, s)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				defer func() {
					if p := recover(); p != nil {
						errs[i] = fmt.Errorf("panic: %v", p)
					}
				}()
				errs[i] = s.InTx(context.Background(), func(tx store.Tx) error {
					if err := tx.Journal().Append(theSession, []perdure.Event{titled(fmt.Sprintf("event_%d", i))}); err != nil {
						return err
					}
					switch i {
					case failing:
						return errTest
					case panicking:
						panic("at the disco")
					}
					return nil
				})
			})
		}
		synctest.Wait()

		release()
		wg.Wait()

		for i, err := range errs {
			switch {
			case i == failing && err != errTest:
				t.Errorf("the failing transaction got %v, want its own error", err)
			case i == panicking && (err == nil || err.Error() != "panic: at the disco"):
				t.Errorf("the panicking transaction got %v, want its own panic", err)
			case i != failing && i != panicking && err != nil:
				t.Errorf("transaction %d got %v next to a failed one", i, err)
			}
		}
		after := s.Stats()
		got := sqlite.Stats{Transactions: after.Transactions - before.Transactions,
			Commits: after.Commits - before.Commits}
		if want := (sqlite.Stats{Transactions: callers - 2 + 1, Commits: 2}); got != want {
			t.Errorf("got %+v, want %+v: one commit for the transaction that held, one for the others", got, want)
		}
		events := journal(t, s)
		if len(events) != callers-2 {
			t.Errorf("got %d events, want %d", len(events), callers-2)
		}
		for i, e := range events {
			if e.Seq != int64(i+1) || e.ID == "event_7" || e.ID == "event_11" {
				t.Errorf("event %d is %s with seq %d", i, e.ID, e.Seq)
			}
		}
	})
}

func TestInTx(t *testing.T) {
	t.Parallel()

	t.Run("ends the caller's goroutine where fn ended its own", func(t *testing.T) {
		t.Parallel()
		s := withSession(t, sqlite.Config{Dir: t.TempDir()})
		returned := false
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = s.InTx(context.Background(), func(tx store.Tx) error {
				if err := tx.Journal().Append(theSession, []perdure.Event{titled("event_1")}); err != nil {
					return err
				}
				runtime.Goexit()
				return nil
			})
			returned = true
		})

		wg.Wait()

		if returned {
			t.Error("InTx returned")
		}
		if got := journal(t, s); len(got) != 0 {
			t.Errorf("got %v, want nothing of it", got)
		}
		write(t, s, func(store.Tx) error { return nil })
	})

	t.Run("is left by a caller whose ctx ends and still commits", func(t *testing.T) {
		t.Parallel()
		s := withSession(t, sqlite.Config{Dir: t.TempDir()})
		ctx, cancel := context.WithCancel(context.Background())
		entered, release := make(chan struct{}), make(chan struct{})
		answer := make(chan error)
		go func() {
			answer <- s.InTx(ctx, func(tx store.Tx) error {
				close(entered)
				<-release
				return tx.Journal().Append(theSession, []perdure.Event{titled("event_1")})
			})
		}()
		<-entered

		cancel()
		select {
		case err := <-answer:
			t.Errorf("got %v while fn ran", err)
		default:
		}
		close(release)

		if err := <-answer; err != nil && !errors.Is(err, context.Canceled) { // its answer may arrive as early
			t.Errorf("got %v, want the ctx's error", err)
		}
		write(t, s, func(store.Tx) error { return nil }) // comes after it
		if got := journal(t, s); len(got) != 1 {
			t.Errorf("got %d events, want the one of the caller that left", len(got))
		}
	})

	t.Run("is unavailable after Close", func(t *testing.T) {
		t.Parallel()
		s := open(t, sqlite.Config{Dir: t.TempDir()})
		closed(t, s)
		closed(t, s)

		inTx := s.InTx(context.Background(), func(store.Tx) error { return nil })
		view := s.View(context.Background(), func(store.Reader) error { return nil })

		if !errors.Is(inTx, perdure.Unavailable) || !errors.Is(view, perdure.Unavailable) {
			t.Errorf("got %v and %v, want unavailable", inTx, view)
		}
	})
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := withSession(t, sqlite.Config{Dir: t.TempDir(), MaxPages: 192})
	ctx := context.Background()
	put := func(name string) error {
		return s.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.Files().Put(theSession, store.File{Path: name, Content: make([]byte, 64<<10)})
			return err
		})
	}

	var err error
	var last string
	for i := 0; err == nil && i < 128; i++ {
		last = fmt.Sprintf("/%d", i)
		err = put(last)
	}

	want := "disk full: free space in "
	if !errors.Is(err, perdure.Storage) || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "; nothing was changed") {
		t.Errorf("got %v, want storage with %q", err, want)
	}
	if broken := s.Broken(); broken != nil {
		t.Errorf("the store is broken by a full disk: %v", broken)
	}
	swallowed := s.InTx(ctx, func(tx store.Tx) error {
		if err := tx.Sessions().Update(theSession, "half", perdure.SessionActive); err != nil {
			return err
		}
		_, _ = tx.Files().Put(theSession, store.File{Path: last, Content: make([]byte, 64<<10)})
		return tx.Sessions().Update(theSession, "whole", perdure.SessionActive)
	})
	if !errors.Is(swallowed, perdure.Storage) {
		t.Errorf("got %v from a transaction that continued, want storage", swallowed)
	}
	if got := read(t, s, func(r store.Reader) (store.Session, error) {
		return r.Sessions().Get(theSession)
	}); got.Title != "" {
		t.Errorf("got title %q, want nothing of a transaction that met a full disk", got.Title)
	}
	write(t, s, func(tx store.Tx) error {
		_, err := tx.Files().Remove(theSession, "/0")
		return err
	})
	if err := put(last); err != nil {
		t.Errorf("got %v after space was freed, want nil", err)
	}
}

// TestDiskFullAmongNeighbours puts one transaction that does not fit into a batch of transactions
// that do.
func TestDiskFullAmongNeighbours(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := withSession(t, sqlite.Config{Dir: dir, MaxPages: 192})
		release := held(t, s)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = s.InTx(context.Background(), func(tx store.Tx) error {
					f := store.File{Path: fmt.Sprintf("/%d", i)}
					if i == 4 {
						f.Content = make([]byte, 1<<20)
					}
					_, err := tx.Files().Put(theSession, f)
					return err
				})
			})
		}
		synctest.Wait()

		release()
		wg.Wait()

		for i, err := range errs {
			if errors.Is(err, perdure.Storage) != (i == 4) || (err != nil) != (i == 4) {
				t.Errorf("transaction %d got %v", i, err)
			}
		}
	})
}

// TestFailedWrite makes the system refuse a write for another reason than a full disk.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed(t, withSession(t, sqlite.Config{Dir: dir}))

	writer := startChild(t, "fail", dir)
	limit := time.AfterFunc(time.Minute, func() { _ = writer.process.Kill() }) // a broken store may wait for it
	defer limit.Stop()
	got := writer.rest()

	if len(got) != 5 {
		t.Fatalf("got %q within a minute, want 5 lines", got)
	}
	if diff := cmp.Diff([]string{"before: <nil>", "broken: <nil>"}, got[:2]); diff != "" {
		t.Errorf("before the fault (-want +got):\n%s", diff)
	}
	cause := strings.TrimPrefix(got[2], "during: ")
	if !strings.HasPrefix(cause, "storage: cannot read or write in "+dir) {
		t.Errorf("got %q, want a storage error", cause)
	}
	if diff := cmp.Diff([]string{"later: " + cause, "broken: " + cause}, got[3:]); diff != "" {
		t.Errorf("after the fault (-want +got):\n%s", diff)
	}
	events := journal(t, open(t, sqlite.Config{Dir: dir}))
	if len(events) == 0 || events[0].ID != "event_before" {
		t.Errorf("got %v, want what was acknowledged", events)
	}
}

// TestBubble opens, writes, watches and closes in a bubble of synctest.
func TestBubble(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := withSession(t, sqlite.Config{Dir: dir})
		seen := make(chan perdure.EventID, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = s.Watch(t.Context(), theSession, 0, func(f store.Frame) error {
				seen <- f.Event.ID
				return errTest
			})
		})
		synctest.Wait()

		write(t, s, func(tx store.Tx) error { return tx.Journal().Append(theSession, []perdure.Event{titled("event_1")}) })

		if got := <-seen; got != "event_1" {
			t.Errorf("watched %s, want event_1", got)
		}
		wg.Wait()
	})
}

// held keeps the writer busy in a transaction until the returned function is called.
func held(t *testing.T, s *sqlite.Store) (release func()) {
	t.Helper()
	entered, free, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- s.InTx(context.Background(), func(tx store.Tx) error {
			close(entered)
			<-free
			return nil
		})
	}()
	<-entered
	return func() {
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
