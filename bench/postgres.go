package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres" // brings the driver, the very one that the store uses
)

// server is the PostgreSQL server of a run. It starts with the first measurement that needs it and
// stops with the run. Its commits are synced to the disk of temporary files.
type server struct {
	cluster *pgserver.Cluster
	failed  error    // why there is no server
	used    []string // URLs of the databases of the current measurement
	bare    string   // URL of the database of floors, of which there is one at a time; empty: none yet
}

// startServer starts the server once, and reports whether there is one. If not, the report says
// why.
func (l *runner) startServer(ctx context.Context) bool {
	if l.server.cluster != nil || l.server.failed != nil {
		return l.server.failed == nil
	}
	l.server.cluster, l.server.failed = pgserver.NewCluster(pgserver.Config{Fsync: !l.quick})
	if l.server.failed == nil {
		l.report.Machine.Postgres, l.server.failed = l.serverVersion(ctx)
	}
	if l.server.failed != nil {
		l.report.Machine.Postgres = ""
		l.progressf("postgres: %v", l.server.failed)
		l.report.missing("postgres", l.server.failed)
	}
	return l.server.failed == nil
}

func (l *runner) serverVersion(ctx context.Context) (version string, err error) {
	db, err := sql.Open("pgx", l.server.cluster.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, askServer).Scan(&version)
	return version, err
}

// database creates a database with the tables of a store.
func (s *server) database(ctx context.Context) (url string, err error) {
	if url, err = s.cluster.Database(ctx, makeSchema); err == nil {
		s.used = append(s.used, url)
	}
	return url, err
}

// floor opens a floor.
func (s *server) floor(ctx context.Context) (_ floor, err error) {
	if s.bare == "" {
		if s.bare, err = s.cluster.Database(ctx, nil); err != nil {
			return nil, err
		}
	}
	return openFloorPostgres(ctx, s.bare)
}

// dropDatabase empties the databases of a measurement for the next one, because creating a database
// takes longer than many quick measurements. Measurements of time start with new databases.
func (s *server) dropDatabase(ctx context.Context) (err error) {
	for _, url := range s.used {
		err = errors.Join(err, s.cluster.Reuse(ctx, url))
	}
	s.used = nil
	return err
}

// close stops the server, if there is one.
func (s *server) close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// onPostgres reports whether the current measurement uses Postgres.
func (l *runner) onPostgres() bool { return l.report.ending == onPostgres }

// makeSchema creates the schema of a store in an empty database. The databases of worlds are copies
// of it.
func makeSchema(url string) error {
	st, err := postgres.Open(context.Background(), postgres.Config{URL: url})
	if err != nil {
		return err
	}
	return st.Close()
}

// floorPostgres is the floor on Postgres: each caller has its own connection, so that the server
// shares syncs among them.
type floorPostgres struct {
	db    *sql.DB
	lines []*bareLine // the first one is also for a single caller
}

// openFloorPostgres creates the tables in a database, replacing those of an earlier floor.
func openFloorPostgres(ctx context.Context, url string) (*floorPostgres, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, fmt.Errorf("open floor: %w", err)
	}
	first, err := openLine(ctx, db, floorBeginPostgres, floorSchemaPostgres)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &floorPostgres{db: db, lines: []*bareLine{first}}, nil
}

func (f *floorPostgres) close() error {
	var errs []error
	for _, l := range f.lines {
		errs = append(errs, l.close())
	}
	return errors.Join(append(errs, f.db.Close())...)
}

func (f *floorPostgres) alone() committing {
	return func(w write) error { return f.lines[0].commit(w) }
}

// callers commit on separate connections.
func (f *floorPostgres) callers(ctx context.Context, n int) ([]committing, error) {
	for len(f.lines) < n {
		l, err := openLine(ctx, f.db, floorBeginPostgres)
		if err != nil {
			return nil, err
		}
		f.lines = append(f.lines, l)
	}
	places := make([]committing, n)
	for i := range places {
		places[i] = func(w write) error { return f.lines[i].commit(w) }
	}
	return places, nil
}

// tally is a store that counts its transactions.
type tally struct {
	store.Store
	transactions atomic.Int64
}

// InTx counts and runs fn.
func (t *tally) InTx(ctx context.Context, fn func(store.Tx) error) error {
	t.transactions.Add(1)
	return t.Store.InTx(ctx, fn)
}
