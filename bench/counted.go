package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// countingStore is a store that counts the statements of store/sqlite. It runs one transaction at a
// time, without shared commits, and reads on the writing connection. It is for counting, not for
// timing.
type countingStore struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	hub     *store.Hub
	mu      sync.Mutex // one transaction or view at a time; guards texts

	texts map[string]int // executions of each statement, without those of watchers

	commits  atomic.Int64 // committed transactions
	views    atomic.Int64 // without those of watchers
	written  atomic.Int64 // statements of transactions
	read     atomic.Int64 // statements of views
	watching atomic.Int64 // statements of watchers
}

var _ store.Store = (*countingStore)(nil)

// openCounted creates a database in an empty folder.
func openCounted(ctx context.Context, dir string) (*countingStore, error) {
	dsn := url.URL{Scheme: "file", Path: filepath.Join(dir, "counted.db"), RawQuery: url.Values{
		"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the counting store: %w", err)
	}
	s := &countingStore{db: db, hub: store.NewHub(), texts: map[string]int{}, dialect: sqlstore.Dialect{
		Goose:   "sqlite3",
		Clock:   func(context.Context, sqlstore.DB) (time.Time, error) { return time.Now(), nil },
		Explain: func(err error) error { return fmt.Errorf("%w: %w", perdure.Storage, err) },
	}}
	if err := sqlstore.Migrate(ctx, db, s.dialect); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// InTx runs fn in a separate database transaction.
func (s *countingStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
	appended, err := s.inTx(ctx, &s.written, fn)
	if err != nil {
		return err
	}
	s.commits.Add(1)
	for _, id := range appended {
		s.hub.Notify(id)
	}
	return nil
}

func (s *countingStore) inTx(ctx context.Context, counter *atomic.Int64,
	fn func(store.Tx) error) ([]perdure.SessionID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, s.dialect.Explain(err)
	}
	tx := sqlstore.New(ctx, countingTx{begun, s, counter}, s.dialect)
	if err := errors.Join(fn(tx), tx.Failure()); err != nil {
		return nil, errors.Join(err, begun.Rollback())
	}
	return tx.Appended(), begun.Commit()
}

// View runs fn in a transaction, too.
func (s *countingStore) View(ctx context.Context, fn func(store.Reader) error) error {
	s.views.Add(1)
	_, err := s.inTx(ctx, &s.read, func(tx store.Tx) error { return fn(tx.Reader()) })
	return err
}

// Watch reads like any watcher; its statements are not counted for the turn.
func (s *countingStore) Watch(ctx context.Context, session perdure.SessionID, after int64,
	fn func(store.Frame) error) error {
	read := func(after int64, limit int) (found []perdure.Event, err error) {
		_, err = s.inTx(ctx, &s.watching, func(tx store.Tx) error {
			found, err = tx.Journal().Events(session, after, limit)
			return err
		})
		return found, err
	}
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Publish sends a frame to the watchers.
func (s *countingStore) Publish(frame store.Frame) { s.hub.Publish(frame) }

// Close closes the database.
func (s *countingStore) Close() error {
	s.hub.Close()
	return s.db.Close()
}

// forget resets the counts.
func (s *countingStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range []*atomic.Int64{&s.commits, &s.views, &s.written, &s.read, &s.watching} {
		n.Store(0)
	}
	s.texts = map[string]int{}
}

// list writes the statements, the most frequent first.
func (s *countingStore) list(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byCount := slices.SortedFunc(maps.Keys(s.texts), func(a, b string) int {
		return cmp.Or(s.texts[b]-s.texts[a], strings.Compare(a, b))
	})
	for _, text := range byCount {
		fmt.Fprintf(w, "%5d  %s\n", s.texts[text], strings.Join(strings.Fields(text), " "))
	}
}

// countingTx counts the statements of one transaction.
type countingTx struct {
	tx *sql.Tx
	of *countingStore // the transaction holds its lock
	n  *atomic.Int64
}

// ExecContext counts and runs a statement that returns no rows.
func (c countingTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.count(query)
	return c.tx.ExecContext(ctx, query, args...)
}

// QueryContext counts and runs a statement that returns rows.
func (c countingTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.count(query)
	return c.tx.QueryContext(ctx, query, args...)
}

func (c countingTx) count(query string) {
	c.n.Add(1)
	if c.n != &c.of.watching {
		c.of.texts[query]++
	}
}
