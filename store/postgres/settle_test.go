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

// TestNumberOfAnotherLife asks about numbers of transactions before and after a crash of the server, which may give them
// again: what it says of another life's is not believed.
func TestNumberOfAnotherLife(t *testing.T) {
	t.Parallel()
	c := pgtest.Own(t, pgserver.Config{})
	url, err := c.Database(t.Context(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	before := open(t, postgres.Config{URL: url})
	_, old, err := before.Begun(t.Context())
	if err != nil || old == "" {
		t.Fatalf("got the life %q, %v", old, err)
	}
	if err := errors.Join(c.Stop(), c.Start()); err != nil {
		t.Fatal(err)
	}
	after := open(t, postgres.Config{URL: url, Patience: 6 * time.Second})
	number, life, err := after.Begun(t.Context())
	if err != nil || life == "" || life == old {
		t.Fatalf("got the life %q after %q, %v, want another", life, old, err)
	}
	future, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}

	if err := after.Settle(t.Context(), number, life); err != nil {
		t.Errorf("of this life: got %v, want success", err)
	}
	if err := after.Settle(t.Context(), number, old); !errors.Is(err, perdure.Unavailable) || !contains(err, "in doubt") {
		t.Errorf("of another life: got %v, want unavailable, in doubt", err)
	}
	if err := after.Settle(t.Context(), strconv.Itoa(future+1_000_000), old); !postgres.NothingWasCommitted(err) {
		t.Errorf("of a number that was not given yet: got %v, want that nothing was committed", err)
	}
}

// TestSettleAfterTheEnd asks for a caller whose context has ended: it hears what became of its transaction all the same.
func TestSettleAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	number, life, err := s.Begun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	if err := s.Settle(ended, number, life); err != nil {
		t.Errorf("got %v, want success", err)
	}
}
