package postgres_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store/postgres"
)

// TestNumberOfAnotherEra asks for the outcome of transaction ids before and after a crash of the
// server, which may give them again. Its answer about an id of another era is not used.
func TestNumberOfAnotherEra(t *testing.T) {
	t.Parallel()
	c := pgtest.Own(t, pgserver.Config{})
	url, err := c.Database(t.Context(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	before := open(t, postgres.Config{URL: url})
	_, old, err := before.Begun(t.Context())
	if err != nil || old == "" {
		t.Fatalf("got the era %q, %v", old, err)
	}
	if err := errors.Join(c.Stop(), c.Start()); err != nil {
		t.Fatal(err)
	}
	after := open(t, postgres.Config{URL: url, RetryTimeout: 6 * time.Second})
	number, era, err := after.Begun(t.Context())
	if err != nil || era == "" || era == old {
		t.Fatalf("got the era %q after %q, %v, want another", era, old, err)
	}
	future, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}

	if err := after.Settle(t.Context(), number, era); err != nil {
		t.Errorf("in this era: got %v, want success", err)
	}
	if err := after.Settle(t.Context(), number, old); !errors.Is(err, perdure.Unavailable) ||
		!contains(err, "in doubt") {
		t.Errorf("in another era: got %v, want unavailable, in doubt", err)
	}
	if err := after.Settle(t.Context(), strconv.Itoa(future+1_000_000), old); !postgres.NothingWasCommitted(err) {
		t.Errorf("an id that was not given yet: got %v, want that nothing was committed", err)
	}
}

// TestSettleAfterTheEnd settles for a caller whose context has ended. The caller still receives the
// outcome of its transaction.
func TestSettleAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	number, era, err := s.Begun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	if err := s.Settle(ended, number, era); err != nil {
		t.Errorf("got %v, want success", err)
	}
}
