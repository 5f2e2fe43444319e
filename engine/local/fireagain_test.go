package local_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// undone is a store that rolls back the first transaction that fires, and runs it again, as
// PostgreSQL does after a deadlock. between writes concurrently, before the second run.
type undone struct {
	store.Store
	between chan func() // capacity 1
	done    atomic.Bool
}

// errUndone rolls back a transaction.
var errUndone = errors.New("undone")

func (u *undone) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := u.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &spyFire{Tx: tx}
		err := fn(spy)
		if err == nil && spy.fires && u.done.CompareAndSwap(false, true) {
			err = errUndone
		}
		return err
	})
	if !errors.Is(err, errUndone) {
		return err
	}
	(<-u.between)()
	return u.Store.InTx(ctx, fn)
}

// spyFire records that a schedule fires.
type spyFire struct {
	store.Tx
	fires bool
}

// spyFireSchedules overrides a part of one noun.
type spyFireSchedules struct {
	store.Schedules
	*spyFire
}

func (s *spyFire) Schedules() store.Schedules { return spyFireSchedules{s.Tx.Schedules(), s} }

// spyFireReader reads what the transaction shows.
type spyFireReader struct {
	store.Reader
	tx *spyFire
}

func (s *spyFire) Reader() store.Reader { return spyFireReader{s.Tx.Reader(), s} }

func (r spyFireReader) Schedules() store.ScheduleReader { return r.tx.Schedules() }

func (s spyFireSchedules) AddFire(f perdure.Fire) error {
	s.fires = true
	return s.Schedules.AddFire(f)
}

// TestFireUndone: a fire whose transaction was rolled back, and that belongs to another worker or
// has been removed when it runs again, runs nothing (SC15).
func TestFireUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		over := &undone{Store: b.st, between: make(chan func(), 1)}
		b.over = over
		eng, end := b.start(faulty.Plan{})
		s := b.every(eng, b.session(eng), nil)
		over.between <- func() {
			err := b.st.InTx(context.Background(), func(tx store.Tx) error {
				now, err := tx.Schedules().Get(s.ID)
				if err != nil {
					return err
				}
				return tx.Schedules().Put(now.Disarm("somebody paused it"), store.ScheduleCaps{})
			})
			if err != nil {
				t.Error(err)
			}
		}

		b.pass(11 * time.Minute)

		if !over.done.Load() || len(b.fires(s.ID)) != 0 || len(b.rang()) != 0 {
			t.Errorf("undone %t: got %d fires and %d runs, want none", over.done.Load(), len(b.fires(s.ID)), len(b.rang()))
		}
		end()
	})
}

// TestTriggerWhilePaused: a session that is paused between the decision about a manual fire and its
// commit makes it a skip, which is recorded and returned (SC22).
func TestTriggerWhilePaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		var pause func()
		var armed atomic.Bool
		eng, end := b.start(faulty.Plan{At: func(p faulty.Point) faulty.Fault {
			if p.Method == "InTx" && armed.CompareAndSwap(true, false) {
				pause()
			}
			return faulty.Fault{}
		}})
		id := b.session(eng)
		s := b.every(eng, id, nil)
		pause = func() {
			if err := eng.Sessions().Pause(t.Context(), id, "ada", "lunch"); err != nil {
				t.Error(err)
			}
		}
		armed.Store(true)

		fire, err := eng.Schedules().Trigger(t.Context(), s.ID, "ada")

		all := b.fires(s.ID)
		if err != nil || fire.Outcome != perdure.SkippedBudget || !strings.Contains(fire.Reason, "paused") || len(all) != 1 || armed.Load() {
			t.Errorf("got %+v, %v; recorded %+v", fire, err, all)
		}
		end()
	})
}

// TestFireUnpaid: fires without remaining budget are skipped_budget, however many there are, and
// later ones fire again (SC21).
func TestFireUnpaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		set, err := eng.Budgets().Set(t.Context(), budget.Budget{
			Subject: budget.Subject{Scope: budget.Session, ID: string(id)}, Currency: budget.Calls, Limit: budget.Whole(1),
		}, "ada")
		if err != nil {
			t.Fatal(err)
		}
		s := b.every(eng, id, nil)

		b.pass(2*time.Hour + time.Second)

		fires := b.fires(s.ID)
		for _, f := range fires[1:] {
			if f.Outcome != perdure.SkippedBudget || f.Reason == "" || f.Task != "" {
				t.Errorf("got %+v", f)
			}
		}
		now, err := eng.Schedules().Get(t.Context(), s.ID)
		if err != nil || !now.Enabled || now.Failures != 0 || now.Count != 1 || len(fires) != 12 || !now.LastFire.Equal(fires[0].Nominal) {
			t.Errorf("got %+v, %v, after %d fires", now, err, len(fires))
		}
		if err := eng.Budgets().Remove(t.Context(), set.ID); err != nil {
			t.Fatal(err)
		}
		b.pass(20 * time.Minute)
		if n := len(b.rang()); n != 3 {
			t.Errorf("got %d runs, want the first and two more", n)
		}
		end()
	})
}

// TestLateFiresThatAsk: late fires that wait for an approval do not block other late fires (SC20).
func TestLateFiresThatAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		eng, end := b.start(faulty.Plan{})
		id := b.session(eng)
		for range 4 {
			b.every(eng, id, func(s *perdure.Schedule) { s.Cron, s.Action.Tool = "1 * * * *", "ask" })
		}
		s := b.every(eng, id, func(s *perdure.Schedule) { s.Cron = "10 * * * *" })
		end()
		b.pass(80 * time.Minute)
		_, end = b.start(faulty.Plan{})

		b.pass(5 * time.Minute)

		if fires := b.fires(s.ID); len(fires) != 1 || fires[0].Outcome != perdure.Fired || len(b.rang()) != 1 {
			t.Errorf("got %+v and %d runs, want the late fire", fires, len(b.rang()))
		}
		end()
	})
}

// TestFireFenced: a worker whose lease has expired by the store's clock fires no run (TK8).
func TestFireFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBell(t)
		b.share = true
		b.pass(2 * time.Second) // so that no scan for orphans, which would notice, coincides with the fire
		eng, end := b.start(faulty.Plan{})
		s := b.every(eng, b.session(eng), func(s *perdure.Schedule) { s.Cron = "5 * * * *" })
		b.pass(time.Until(s.NextAt) - time.Second)
		err := b.st.InTx(t.Context(), func(tx store.Tx) error {
			workers, err := tx.Workers().List()
			for _, w := range workers {
				w.LeaseUntil = tx.Now().Add(-time.Second)
				err = errors.Join(err, tx.Workers().Put(w))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}

		b.pass(time.Minute)

		if fires := b.fires(s.ID); len(fires) != 0 || len(b.rang()) != 0 {
			t.Errorf("got %+v and %d runs, want none", fires, len(b.rang()))
		}
		end()
	})
}
