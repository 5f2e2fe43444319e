// Package storetest holds the laws that every store must pass: one file per noun. Each law runs on
// a store of its own.
//
// It may import the root, agent and store. The one thing to know: a law checks promises in the
// comments of package store and nothing else, so that stores which pass all laws are
// interchangeable (R31). An adapter needs a test of a few lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: open, Reopen: reopen})
//	}
package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// patience is how long a law may take: it ends one that hangs, also on a slow machine.
const patience = 2 * time.Minute

// nParallel is how many goroutines a law starts at once.
const nParallel = 16

// Harness is what the laws need from an adapter.
type Harness struct {
	// Open returns an empty store, which the adapter closes and removes when t ends. Laws may close
	// it too.
	Open func(t *testing.T) store.Store
	// Reopen closes a store and returns the store that the next process would open. The adapter
	// cleans it up as well. nil is for a store that does not survive its process: the laws continue
	// with the same store.
	Reopen func(t *testing.T, old store.Store) store.Store
	// Traces returns the names of the locations that still contain a session's id. An SQL store
	// calls TracesIn with all of its tables. Without Traces, the law that nothing is left of a
	// removed session fails.
	Traces func(t *testing.T, st store.Store, id perdure.SessionID) []string
}

// Run checks all laws, each as a test of its own: noun/law.
func Run(t *testing.T, h Harness) {
	for _, n := range nouns() {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			for _, l := range n.laws {
				t.Run(l.name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					t.Cleanup(cancel)
					defer reportPanic(t)
					l.check(&subject{T: t, Store: h.Open(t), harness: h, ctx: ctx})
				})
			}
		})
	}
}

// reportPanic turns a panic into the failure of one law, so that the remaining laws still run.
func reportPanic(t *testing.T) {
	if p := recover(); p != nil {
		t.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// noun is a group of laws.
type noun struct {
	name string
	laws []law
}

// law is one promise of the port.
type law struct {
	name  string
	check func(*subject)
}

func nouns() []noun {
	return []noun{
		{"journal", journalLaws()},
		{"session", sessionLaws()},
		{"label", labelLaws()},
		{"call", append(callLaws(), callInDoubtLaws()...)},
		{"settle", settleLaws()},
		{"task", taskLaws()},
		{"taskprune", taskPruneLaws()},
		{"taskmessage", taskMessageLaws()},
		{"outbox", outboxLaws()},
		{"log", logLaws()},
		{"file", fileLaws()},
		{"worker", workerLaws()},
		{"request", requestLaws()},
		{"bulk", bulkLaws()},
		{"approval", approvalLaws()},
		{"spawn", spawnLaws()},
		{"partial", partialLaws()},
		{"resource", resourceLaws()},
		{"lease", leaseLaws()},
		{"cleanup", cleanupLaws()},
		{"schedule", scheduleLaws()},
		{"value", valueLaws()},
		{"image", imageLaws()},
		{"secret", secretLaws()},
		{"budget", budgetLaws()},
		{"directory", directoryLaws()},
		{"payment", paymentLaws()},
		{"rate", rateLaws()},
		{"webhook", webhookLaws()},
		{"token", tokenLaws()},
		{"audit", auditLaws()},
		{"dump", dumpLaws()},
		{"remove", removeLaws()},
		{"tx", txLaws()},
		{"view", viewLaws()},
		{"watch", watchLaws()},
	}
}

// subject is the store under test, with its test.
type subject struct {
	*testing.T
	store.Store

	harness Harness
	ctx     context.Context // ends with the law, or when it takes too long
	minted  atomic.Uint64
}

func sameMoment(a, b time.Time) bool { return a.Equal(b) && a.Location() == b.Location() }

// write runs a transaction that must succeed.
func (s *subject) write(fn func(store.Tx) error) {
	s.Helper()
	if err := s.InTx(s.ctx, fn); err != nil {
		s.Fatalf("transaction: %v", err)
	}
}

// read runs a view that must succeed.
func (s *subject) read(fn func(store.Reader) error) {
	s.Helper()
	if err := s.View(s.ctx, fn); err != nil {
		s.Fatalf("view: %v", err)
	}
}

// refused runs a transaction that must fail with want.
func (s *subject) refused(want error, fn func(store.Tx) error) {
	s.Helper()
	if err := s.InTx(s.ctx, fn); !errors.Is(err, want) {
		s.Fatalf("got error %v, want %v", err, want)
	}
}

// unknown runs a view that must return NotFound.
func (s *subject) unknown(fn func(store.Reader) error) {
	s.Helper()
	if err := s.View(s.ctx, fn); !errors.Is(err, perdure.NotFound) {
		s.Fatalf("got error %v, want %v", err, perdure.NotFound)
	}
}

// same compares two values. An empty slice or map equals nil. A time must also have the same zone,
// which is UTC in everything that comes from a store. It may be called in an fn.
func (s *subject) same(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(sameMoment)); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// reopen continues with the store that the next process would open.
func (s *subject) reopen() {
	s.Helper()
	if s.harness.Reopen != nil {
		s.Store = s.harness.Reopen(s.T, s.Store)
	}
}

// within runs fn and waits for it until ctx ends, since fn may hang in a store that breaks the law.
func (s *subject) within(fn func() error) error {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
		s.Fatal("the call did not return")
		return nil
	}
}

// waits runs a transaction of lock and then, and one that waits for its lock: waiter begins once
// lock has returned, and before the first transaction commits. A store that lets one transaction
// write at a time does not even begin waiter before.
func (s *subject) waits(lock, then, waiter func(store.Tx) error) {
	s.Helper()
	locked, ended := make(chan struct{}), make(chan error, 1)
	locks := sync.OnceFunc(func() { close(locked) })
	go func() {
		<-locked
		ended <- s.InTx(s.ctx, waiter)
	}()
	s.write(func(tx store.Tx) error {
		if err := lock(tx); err != nil {
			return err
		}
		locks()
		for range 100 { // statements that give waiter the time to begin
			if err := lock(tx); err != nil {
				return err
			}
		}
		return then(tx)
	})
	if err := s.within(func() error { return <-ended }); err != nil {
		s.Fatalf("the transaction that waited: %v", err)
	}
}

// together runs fn in n goroutines at once and waits for all of them. None may fail.
func (s *subject) together(n int, fn func(i int) error) {
	s.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

// race runs fn in nParallel goroutines at once. Exactly one must succeed, and all others must fail
// with lost. It returns the successful one.
func (s *subject) race(lost error, fn func(i int) error) (winner int) {
	s.Helper()
	errs := make([]error, nParallel)
	s.together(nParallel, func(i int) error {
		errs[i] = fn(i)
		return nil
	})
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winner = i
			won++
		case !errors.Is(err, lost):
			s.Errorf("got error %v, want %v", err, lost)
		}
	}
	if won != 1 {
		s.Fatalf("%d of %d won, want one", won, nParallel)
	}
	return winner
}

// mint returns a new id.
func mint[T perdure.ID](s *subject) T {
	var uuid [16]byte
	binary.BigEndian.PutUint64(uuid[8:], s.minted.Add(1))
	return perdure.FormatID[T](uuid)
}

// moment returns a time with all the digits that a store keeps. Each n gives another time.
func moment(n int) time.Time {
	return time.Date(2026, 3, 29, 1, 59, 58, 987_654_000, time.UTC).Add(time.Duration(n) * time.Microsecond)
}

// session adds a session and returns its id.
func (s *subject) session() perdure.SessionID {
	s.Helper()
	row := s.newSession()
	s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
	return row.ID
}

func (s *subject) newSession() store.Session {
	id := mint[perdure.SessionID](s)
	return store.Session{
		ID: id, Root: id, Title: "a session", Status: perdure.SessionStarted,
		Secret: perdure.Secret{1, 2, 3}, CreatedAt: moment(0), UpdatedAt: moment(1),
	}
}

// events returns n events with a text.
func (s *subject) events(n int) []perdure.Event {
	events := make([]perdure.Event, n)
	for i := range events {
		events[i] = perdure.Event{
			ID: mint[perdure.EventID](s), At: moment(i), Actor: "user",
			Fact: perdure.SessionUpdated{Title: fmt.Sprintf("title %d", i)},
		}
	}
	return events
}

// append adds n events to a session's journal.
func (s *subject) append(id perdure.SessionID, n int) {
	s.Helper()
	events := s.events(n)
	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })
}

// journal returns all events of a session.
func (s *subject) journal(id perdure.SessionID) []perdure.Event {
	s.Helper()
	var events []perdure.Event
	s.read(func(r store.Reader) (err error) {
		events, err = r.Journal().Events(id, 0, 0)
		return err
	})
	return events
}
