package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// TestR10AmbiguousCommit breaks the connection during a COMMIT. What InTx returns matches what is
// stored, and nothing is stored twice.
func TestR10AmbiguousCommit(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		fault fault
		runs  [2]int // of fn: minimum and maximum
	}{
		{"before_it_reached_the_server", before, [2]int{2, 2}},
		{"after_it_reached_the_server", after, [2]int{1, 1}},
		{"while_it_is_under_way", meanwhile, [2]int{1, 2}},
		{"into_a_black_hole", blackHole, [2]int{2, 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, database(t))
			// A slow machine must not end an attempt by its time limit: that would be one run more.
			// Only the black hole needs the limit to end.
			patience := 5 * time.Minute
			if c.fault == blackHole {
				patience = 6 * time.Second
			}
			s := open(t, postgres.Config{URL: p.url, RetryTimeout: patience})
			begun(t, s)

			for i := range 5 {
				p.do(c.fault)
				runs := 0
				err := s.InTx(t.Context(), func(tx store.Tx) error {
					runs++
					return errors.Join(tx.Journal().Append(theSession, []perdure.Event{titled(fmt.Sprint("event_", i))}),
						grow(tx))
				})

				if err != nil || runs < c.runs[0] || runs > c.runs[1] || p.count() != 1 {
					t.Fatalf("got %v after %d runs, %d COMMITs failed; want success after %d to %d", err, runs,
						p.count(), c.runs[0], c.runs[1])
				}
				if got := len(journal(t, s)); got != i+1 || grown(t, s) != i+1 {
					t.Fatalf("got %d events and %d bytes, want %d", got, grown(t, s), i+1)
				}
				if c.fault == blackHole {
					break // each takes as long as the wait for a COMMIT
				}
			}
		})
	}
}

// TestCommitInDoubt makes the database unavailable for good during the COMMIT. The error then says
// that the outcome is in doubt.
func TestCommitInDoubt(t *testing.T) {
	t.Parallel()
	c := pgtest.Own(t, pgserver.Config{})
	url, err := c.Database(t.Context(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, url)
	s := open(t, postgres.Config{URL: p.url, RetryTimeout: time.Second})
	begun(t, s)

	hit, stopped := p.do(blackHole), make(chan error, 1)
	go func() {
		<-hit
		stopped <- c.Stop()
	}()
	err = s.InTx(t.Context(), grow)

	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, perdure.Unavailable) || !contains(err, "in doubt") {
		t.Errorf("got %v, want unavailable, in doubt", err)
	}
}

// grow makes the counter of theSession longer by a byte.
func grow(tx store.Tx) error {
	f, err := tx.Files().Get(theSession, "/counter")
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	_, err = tx.Files().Put(theSession, store.File{Path: "/counter", Content: append(f.Content, '|')})
	return err
}

func grown(t *testing.T, s store.Store) (n int) {
	t.Helper()
	err := s.View(context.Background(), func(r store.Reader) error {
		f, err := r.Files().Get(theSession, "/counter")
		n = len(f.Content)
		return err
	})
	if err != nil && !errors.Is(err, perdure.NotFound) {
		t.Fatal(err)
	}
	return n
}
