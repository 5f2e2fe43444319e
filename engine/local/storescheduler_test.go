package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// TestOneScheduler tests that the workers of one scheduler only work on a store, whichever store it
// is (RC32).
func TestOneScheduler(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) store.Store{
		"memory": func(t *testing.T) store.Store { return opened(t, memory.New(memory.Config{}), nil) },
		"sqlite": func(t *testing.T) store.Store {
			st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
			return opened(t, st, err)
		},
		"postgres": func(t *testing.T) store.Store {
			st, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Database(t, migrated), Writers: 4, Readers: 1})
			return opened(t, st, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("a worker of another scheduler is refused", func(t *testing.T) { refusesOthers(t, open(t)) })
			t.Run("it changes while no worker has a lease", func(t *testing.T) { changes(t, open(t)) })
			t.Run("of several at once one is noted", func(t *testing.T) { claimsAtOnce(t, open(t)) })
		})
	}
}

func opened(t *testing.T, st store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

const onTemporal = "temporal:default/perdure"

// TestGrantedStore: an engine under grants notes the name of its scheduler, and an engine that
// schedules its own work is refused (RC32).
func TestGrantedStore(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_note")})
	noted(t, r.shared, (&adversary{}).Name())
	eng, err := local.Open(t.Context(), local.Config{Store: r.shared, Model: obedient{}, Tools: tool.NewRegistry(), Workers: local.Workers{Shared: true}})
	if err != nil {
		t.Fatal(err)
	}

	if err := eng.Run(t.Context()); !errors.Is(err, perdure.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// TestGrantedStoreChanges: the scheduler of a store is changed while an engine under grants is cut
// off, and its row is gone. The engine ends with its next heartbeat, instead of registering again.
func TestGrantedStoreChanges(t *testing.T) {
	t.Parallel()
	r := newGrantRig(t, enginetest.Setup{Script: oneHold("hold_note"), Beat: 20 * time.Millisecond})
	err := r.shared.InTx(t.Context(), func(tx store.Tx) error { return tx.Workers().Remove(r.a.Worker()) })
	if err == nil {
		_, err = host.ChangeScheduler(t.Context(), r.shared, host.LocalScheduler, true)
	}
	if err != nil {
		t.Fatal(err)
	}

	err = <-r.a.ended

	r.a.ended <- err // for the end of the test
	if !errors.Is(err, perdure.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
}

func refusesOthers(t *testing.T, st store.Store) {
	t.Helper()
	if err := working(t, st, func() {}); err != nil {
		t.Fatal(err)
	}
	noted(t, st, host.LocalScheduler)
	from, err := host.ChangeScheduler(t.Context(), st, onTemporal, true)
	if err != nil || from != host.LocalScheduler {
		t.Fatalf("former scheduler %q, %v", from, err)
	}

	err = working(t, st, func() { t.Error("it works") })

	if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), onTemporal) {
		t.Errorf("got %v, want a conflict with %s", err, onTemporal)
	}
	noted(t, st, onTemporal)
	if left := workers(t, st); len(left) > 0 {
		t.Errorf("workers %v are left", left)
	}
}

func changes(t *testing.T, st store.Store) {
	t.Helper()
	err := working(t, st, func() {
		if _, err := host.ChangeScheduler(t.Context(), st, onTemporal, false); !errors.Is(err, perdure.Conflict) {
			t.Errorf("beside a worker: got %v, want a conflict", err)
		}
		noted(t, st, host.LocalScheduler)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "cron", "temporal:default", "temporal:/perdure", "temporal:a b/perdure", onTemporal + "/more"} {
		if _, err := host.ChangeScheduler(t.Context(), st, name, false); !errors.Is(err, perdure.Invalid) {
			t.Errorf("scheduler %q: got %v, want invalid", name, err)
		}
	}
	for _, name := range []string{onTemporal, host.LocalScheduler} {
		if _, err := host.ChangeScheduler(t.Context(), st, name, false); err != nil {
			t.Error(err)
		}
		noted(t, st, name)
	}
	if err := working(t, st, func() {}); err != nil {
		t.Error(err)
	}
}

// claimsAtOnce claims a store for many schedulers at the same time.
func claimsAtOnce(t *testing.T, st store.Store) {
	t.Helper()
	var group sync.WaitGroup
	claimed := make([]error, 8)
	for i := range claimed {
		group.Go(func() { claimed[i] = claim(t.Context(), st, fmt.Sprintf("temporal:default/p%d", i)) })
	}
	group.Wait()

	won := 0
	for i, err := range claimed {
		switch {
		case err == nil:
			won++
			noted(t, st, fmt.Sprintf("temporal:default/p%d", i))
		case !errors.Is(err, perdure.Conflict):
			t.Errorf("got %v, want a conflict", err)
		}
	}
	if won != 1 {
		t.Errorf("%d schedulers have the store, want one", won)
	}
}

// claim claims a store as a worker does.
func claim(ctx context.Context, st store.Store, name string) error {
	for ctx.Err() == nil {
		free := false
		err := st.InTx(ctx, func(tx store.Tx) (err error) {
			free, err = host.ClaimStore(tx, name)
			return err
		})
		if err != nil || free {
			return err
		}
	}
	return ctx.Err()
}

// working runs an engine, calls do once it works, and returns the error of Run.
func working(t *testing.T, st store.Store, do func()) error {
	t.Helper()
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: obedient{}, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(workers(t, st)) == 0 {
		select {
		case <-tick.C:
		case err := <-ended:
			return err
		}
	}
	do()
	stop()
	return <-ended
}

func noted(t *testing.T, st store.Store, want string) {
	t.Helper()
	var got string
	err := st.View(t.Context(), func(r store.Reader) (err error) {
		got, err = host.StoreScheduler(r)
		return err
	})
	if err != nil || got != want {
		t.Errorf("noted scheduler %q, %v, want %q", got, err, want)
	}
}

func workers(t *testing.T, st store.Store) (all []store.Worker) {
	t.Helper()
	err := st.View(t.Context(), func(r store.Reader) (err error) {
		all, err = r.Workers().List()
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}
