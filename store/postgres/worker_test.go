package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// workerOf adds a worker in a process, with a lease of an hour.
func workerOf(t *testing.T, s *postgres.Store, id perdure.WorkerID) (w store.Worker) {
	t.Helper()
	write(t, s, func(tx store.Tx) (err error) {
		if err = tx.Workers().Put(store.Worker{ID: id, LeaseUntil: tx.Now().Add(time.Hour)}); err == nil {
			w, err = tx.Workers().Get(id)
		}
		return err
	})
	return w
}

// awaitListener waits until the listener of a store is connected.
func awaitListener(t *testing.T, s *postgres.Store) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := s.AwaitListener(ctx); err != nil {
		t.Fatal(err)
	}
}

// markDisconnected declares a worker dead if it is not connected, and reports whether it is
// connected and whether its row is left.
func markDisconnected(t *testing.T, s *postgres.Store, w store.Worker) (connected, left bool) {
	t.Helper()
	write(t, s, func(tx store.Tx) (err error) {
		gone, err := tx.Workers().Disconnected(w.ID)
		if connected = len(gone) == 0; err == nil {
			err = tx.Workers().MarkDisconnected(w.ID, w.LeaseUntil)
		}
		if err != nil {
			return err
		}
		workers, err := tx.Workers().List()
		left = len(workers) == 1
		return err
	})
	return connected, left
}

// TestEndedProcess closes the store of a worker, as the end of its process does. Another process
// that has seen the worker connected finds that, unless the worker sent another heartbeat; one that
// has not, or was disconnected itself, leaves the worker alone (RC31).
func TestEndedProcess(t *testing.T) {
	t.Parallel()
	url := database(t)
	looks, late := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	ended, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	w := workerOf(t, ended, "worker_1")
	awaitListener(t, looks)
	awaitListener(t, late)
	if connected, left := markDisconnected(t, looks, w); !connected || !left {
		t.Errorf("a living process: connected %t, its row is left %t", connected, left)
	}
	closed(t, ended)

	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := looks.AwaitDisconnected(ctx, w.ID); err != nil {
		t.Fatal(err)
	}
	if connected, left := markDisconnected(t, late, w); !connected || !left {
		t.Errorf("for a process that came later: connected %t, its row is left %t", connected, left)
	}
	earlier := w
	earlier.LeaseUntil = w.LeaseUntil.Add(-time.Second)
	if connected, left := markDisconnected(t, looks, earlier); connected || !left {
		t.Errorf("with a later heartbeat: connected %t, its row is left %t", connected, left)
	}
	if connected, left := markDisconnected(t, looks, w); connected || left {
		t.Errorf("an ended process: connected %t, its row is left %t", connected, left)
	}
}

// TestOutageIsNotTheEnd ends the listening connection of a process that has seen a worker
// connected, and then all connections of the worker. As both may be due to one outage, the worker
// is left alone (RC31).
func TestOutageIsNotTheEnd(t *testing.T) {
	t.Parallel()
	url := database(t)
	looks := open(t, postgres.Config{URL: url})
	ended, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	w := workerOf(t, ended, "worker_1")
	awaitListener(t, looks)
	if connected, _ := markDisconnected(t, looks, w); !connected {
		t.Error("the worker is not connected")
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()

	before := looks.Listener()
	if n, err := pgtest.Shared(t).KillBackends(ctx, url, 10, "perdure listener"); err != nil || n == 0 {
		t.Fatalf("killed %d listeners: %v", n, err)
	}
	closed(t, ended)
	if err := looks.AwaitAnotherListener(ctx, before); err != nil {
		t.Fatal(err)
	}

	if connected, left := markDisconnected(t, looks, w); !connected || !left {
		t.Errorf("connected %t, its row is left %t", connected, left)
	}
}

// TestBrokenListenerIsNotTheEnd ends the listening connection of a living process. The process
// stays connected with its other connections (RC31).
func TestBrokenListenerIsNotTheEnd(t *testing.T) {
	t.Parallel()
	url := database(t)
	lives, looks := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	w := workerOf(t, lives, "worker_1")
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := looks.AwaitHolders(ctx, w.ID, 2); err != nil {
		t.Fatalf("the listener and another connection: %v", err)
	}

	if n, err := pgtest.Shared(t).KillBackends(ctx, url, 10, "perdure listener"); err != nil || n == 0 {
		t.Fatalf("killed %d listeners: %v", n, err)
	}

	for range 20 {
		if locked, err := looks.Locked(ctx, w.ID); err != nil || !locked {
			t.Fatalf("locked %t, %v", locked, err)
		}
	}
}
