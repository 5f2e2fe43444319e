package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	spenders    = 64 // concurrent, all with one budget
	turns       = 4  // the store and the bare statements alternate
	connections = 16 // of the bare statements on Postgres; SQLite has one writer
)

// budgetStore reserves and settles, both committed.
type budgetStore func(ctx context.Context, spender, work int) error

// budgets measures reserving and settling on each database, and the bare statements on the same
// one.
func budgets(ctx context.Context, n int, withPostgres bool) ([]figure, error) {
	dir, err := os.MkdirTemp("", "perdure-borders")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	rows, err := budgetsOnSQLite(ctx, dir, n)
	if err != nil || !withPostgres {
		return rows, err
	}
	more, err := budgetsOnPostgres(ctx, n)
	return append(rows, more...), err
}

func budgetsOnSQLite(ctx context.Context, dir string, n int) ([]figure, error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Program: "borders"})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	query := url.Values{"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "fullfsync(1)"}}
	source := url.URL{Scheme: "file", Path: filepath.Join(dir, "perdure.db"), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	return compareWithBare(ctx, "sqlite", st, db, n)
}

// budgetsOnPostgres returns no figures where there is no server.
func budgetsOnPostgres(ctx context.Context, n int) ([]figure, error) {
	cluster, err := pgserver.NewCluster(pgserver.Config{Fsync: true})
	if err != nil {
		return []figure{{Name: storeRow + "postgres", Why: err.Error()},
			{Name: bareRow + "postgres", Why: err.Error()}}, nil
	}
	defer cluster.Close()
	address, err := cluster.Database(ctx, nil)
	if err != nil {
		return nil, err
	}
	st, err := postgres.Open(ctx, postgres.Config{URL: address})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return compareWithBare(ctx, "postgres", st, db, n)
}

// The prefixes of the rows, before the name of the database.
const (
	storeRow = "budget_64_writers_"
	bareRow  = "bare_64_writers_"
)

// compareWithBare measures the store and the bare statements alternately.
func compareWithBare(ctx context.Context, name string, st store.Store, db *sql.DB, n int) ([]figure, error) {
	metered, err := storeBudget(ctx, st)
	if err != nil {
		return nil, err
	}
	bare, err := bareBudget(ctx, db)
	if err != nil {
		return nil, err
	}
	var all [2][]time.Duration
	var lasted [2]time.Duration
	for turn := range turns {
		for i, from := range []budgetStore{metered, bare} {
			began := time.Now()
			took, err := spend(ctx, from, turn*n, n)
			if err != nil {
				return nil, fmt.Errorf("spend on %s: %w", name, err)
			}
			lasted[i] += time.Since(began)
			all[i] = append(all[i], took...)
		}
	}
	rows := []figure{summary(storeRow+name, all[0]), summary(bareRow+name, all[1])}
	for i := range rows {
		rows[i].Rate = float64(rows[i].N) / lasted[i].Seconds()
	}
	return rows, nil
}

// spend lets all spenders reserve and settle concurrently, each n times sequentially.
func spend(ctx context.Context, from budgetStore, first, n int) ([]time.Duration, error) {
	took, errs := make([][]time.Duration, spenders), make([]error, spenders)
	var group sync.WaitGroup
	for spender := range spenders {
		group.Go(func() {
			for i := range n {
				began := time.Now()
				if err := from(ctx, spender, first+i); err != nil {
					errs[spender] = err
					return
				}
				took[spender] = append(took[spender], time.Since(began))
			}
		})
	}
	group.Wait()
	return slices.Concat(took...), errors.Join(errs...)
}

// storeBudget is a budget for the calls of the org.
func storeBudget(ctx context.Context, st store.Store) (budgetStore, error) {
	m := meter.New(meter.Config{})
	err := st.InTx(ctx, func(tx store.Tx) error {
		return tx.Budgets().Put(budget.Account{Budget: budget.Budget{
			ID:      "bdgt_0123456789ab7def8123456789abcdef",
			Subject: budget.Subject{Scope: budget.Org, ID: budget.DefaultOrg}, Currency: budget.Calls,
			Limit: budget.Whole(1_000_000), Action: budget.Stop, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
		}})
	})
	return func(ctx context.Context, spender, work int) error {
		who := meter.Owner{Session: perdure.SessionID(fmt.Sprintf("session_%032x", spender))}
		call, uses := budget.CallWork(perdure.CallID(fmt.Sprint("call_", work))), meter.WorkUsage{Tool: "t"}
		err := st.InTx(ctx, func(tx store.Tx) error {
			no, err := m.Reserve(tx, meter.Request{Owner: who, Work: call, Uses: uses})
			if err == nil && no != nil {
				err = errors.New(no.Why)
			}
			return err
		})
		if err != nil {
			return err
		}
		return st.InTx(ctx, func(tx store.Tx) error {
			_, err := m.Settle(tx, meter.Bill{Owner: who, Work: call, Uses: uses})
			return err
		})
	}, err
}

// bareBudget is a row that two statements update, each in a separate commit: no reservations, no
// ledger, no periods.
func bareBudget(ctx context.Context, db *sql.DB) (budgetStore, error) {
	for _, statement := range []string{bareTable, bareAccount} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	reserve, err := db.PrepareContext(ctx, bareReserve)
	if err != nil {
		return nil, err
	}
	settle, err := db.PrepareContext(ctx, bareSettle)
	return func(ctx context.Context, _, _ int) error {
		for _, statement := range []*sql.Stmt{reserve, settle} {
			done, err := statement.ExecContext(ctx, 1_000_000)
			if err != nil {
				return err
			}
			if moved, err := done.RowsAffected(); err != nil || moved != 1 {
				return errors.Join(fmt.Errorf("%d rows moved", moved), err)
			}
		}
		return nil
	}, err
}
