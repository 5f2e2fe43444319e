package meter_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// stores opens each store.
func stores() map[string]func(*testing.T) store.Store {
	return map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New(memory.Config{}) },
		"sqlite": func(t *testing.T) store.Store {
			st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st
		},
		"postgres": func(t *testing.T) store.Store {
			url := pgtest.Database(t, func(url string) error {
				st, err := postgres.Open(context.Background(), postgres.Config{URL: url})
				if err != nil {
					return err
				}
				return st.Close()
			})
			st, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st
		},
	}
}

// TestS22BudgetRace runs 1,000 concurrent calls of several sessions against two shared limits of
// 300, each in a transaction of its own. A call reserves and then settles; a third of them are lost
// with their worker and settled by the worker that takes over. Exactly as many start as the limits
// allow, and no reservation is left.
func TestS22BudgetRace(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			race(t, open(t))
		})
	}
}

const (
	racers  = 1000
	limit   = 300
	writers = racers // all at once
)

func race(t *testing.T, st store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m := meter.New(meter.Config{})
	ids := []perdure.BudgetID{id(1), id(2)}
	write(ctx, t, st, func(tx store.Tx) error {
		for i, subject := range []budget.Subject{{Scope: budget.Org, ID: budget.DefaultOrg},
			{Scope: budget.User, ID: budget.LocalUser}} {
			b := budget.Budget{ID: ids[i], Subject: subject, Currency: budget.Calls, Limit: budget.Whole(limit),
				Action: budget.Stop, CreatedAt: tx.Now(), UpdatedAt: tx.Now()}
			if err := tx.Budgets().Put(budget.Account{Budget: b}); err != nil {
				return err
			}
		}
		return nil
	})
	var begun, refused atomic.Int64
	began := time.Now()
	var group sync.WaitGroup
	work := make(chan int)
	for range writers {
		group.Go(func() {
			for n := range work {
				if one(ctx, t, st, m, n) {
					begun.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	for n := range racers {
		work <- n
	}
	close(work)
	group.Wait()
	took := time.Since(began)

	if begun.Load() != limit || refused.Load() != racers-limit {
		t.Errorf("%d of %d started under a limit of %d", begun.Load(), racers, limit)
	}
	if left := settled(ctx, t, st, ids); left > 0 { // the lost ones
		who := meter.Owner{Session: "session_0"}
		write(ctx, t, st, func(tx store.Tx) error {
			holds, err := tx.Budgets().Holds(store.HoldFilter{})
			for _, h := range holds {
				who.Session = h.Session
				if _, wrong := m.Settle(tx, meter.Bill{Owner: who, Work: h.Work,
					Uses: meter.WorkUsage{Tool: "t"}}); wrong != nil {
					err = wrong
				}
			}
			return err
		})
	}
	if left := settled(ctx, t, st, ids); left != 0 {
		t.Errorf("%d holds are left", left)
	}
	t.Logf("%d calls by %d writers at once, limit %d: %d started, %d refused, overshoot %d, left reserved 0, in %s "+
		"(%.0f a second)",
		racers, writers, limit, begun.Load(), refused.Load(), max(begun.Load()-limit,
			0), took.Round(time.Millisecond), racers/took.Seconds())
}

func id(n int) perdure.BudgetID { return perdure.BudgetID(fmt.Sprintf("bdgt_%032x", n)) }

// one reserves, and settles except for every third call, whose worker is lost.
func one(ctx context.Context, t *testing.T, st store.Store, m *meter.Meter, n int) bool {
	who := meter.Owner{Session: perdure.SessionID(fmt.Sprintf("session_%d", n%7))}
	work := budget.CallWork(perdure.CallID(fmt.Sprint("call-", n)))
	var no *budget.Refusal
	write(ctx, t, st, func(tx store.Tx) (err error) {
		no, err = m.Reserve(tx, meter.Request{Owner: who, Work: work, Uses: meter.WorkUsage{Tool: "t"}})
		return err
	})
	if no != nil || n%3 == 0 {
		return no == nil
	}
	write(ctx, t, st, func(tx store.Tx) error {
		_, err := m.Settle(tx, meter.Bill{Owner: who, Work: work, Uses: meter.WorkUsage{Tool: "t"}})
		return err
	})
	return true
}

// settled compares each account with its ledger and its holds, and counts the holds.
func settled(ctx context.Context, t *testing.T, st store.Store, ids []perdure.BudgetID) (left int) {
	t.Helper()
	err := st.View(ctx, func(r store.Reader) error {
		holds, err := r.Budgets().Holds(store.HoldFilter{})
		left = len(holds)
		for _, id := range ids {
			accounts, err := r.Budgets().List(store.BudgetFilter{ID: id})
			if err != nil {
				return err
			}
			sum, err := r.Budgets().Sum(id, time.Time{}, time.Time{})
			if err != nil {
				return err
			}
			var held budget.Amount
			for _, h := range holds {
				if h.Budget == id {
					held = held.Plus(h.Amount)
				}
			}
			if a := accounts[0]; a.Spent != sum.Amount || a.Reserved != held || a.Spent.Plus(a.Reserved) > a.Limit {
				t.Errorf("%s: spent %s, its ledger says %s; reserved %s, its holds say %s; limit %s", id, a.Spent,
					sum.Amount, a.Reserved, held, a.Limit)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func write(ctx context.Context, t *testing.T, st store.Store, fn func(store.Tx) error) {
	if err := st.InTx(ctx, fn); err != nil {
		t.Errorf("transaction: %v", err)
	}
}
