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

// countedStore is a store over the same statements as store/sqlite that counts them. It writes one transaction at a time,
// without a shared commit, and reads on the connection that writes. It is for counting, never for time.
type countedStore struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	hub     *store.Hub
	mu      sync.Mutex // one transaction or view at a time, and guards texts

	texts map[string]int // how often each statement ran, but those of watchers

	commits  atomic.Int64 // transactions that were kept
	views    atomic.Int64 // but those of watchers
	written  atomic.Int64 // statements of transactions
	read     atomic.Int64 // statements of views
	watching atomic.Int64 // statements of watchers
}

var _ store.Store = (*countedStore)(nil)

// openCounted makes a database in an empty folder.
func openCounted(ctx context.Context, dir string) (*countedStore, error) {
	dsn := url.URL{Scheme: "file", Path: filepath.Join(dir, "counted.db"), RawQuery: url.Values{
		"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the counting store: %w", err)
	}
	s := &countedStore{db: db, hub: store.NewHub(), texts: map[string]int{}, dialect: sqlstore.Dialect{
		Goose:   "sqlite3",
		Clock:   func(context.Context, sqlstore.DB) (time.Time, error) { return time.Now(), nil },
		Explain: func(err error) error { return fmt.Errorf("%w: %w", perdure.Storage, err) },
	}}
	if err := sqlstore.Migrate(ctx, db, s.dialect); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// InTx runs fn in a database transaction of its own.
func (s *countedStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
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

func (s *countedStore) inTx(ctx context.Context, counter *atomic.Int64, fn func(store.Tx) error) ([]perdure.SessionID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, s.dialect.Explain(err)
	}
	tx := sqlstore.New(ctx, counting{begun, s, counter}, s.dialect)
	if err := errors.Join(fn(tx), tx.Failure()); err != nil {
		return nil, errors.Join(err, begun.Rollback())
	}
	return tx.Appended(), begun.Commit()
}

// View runs fn in a transaction too.
func (s *countedStore) View(ctx context.Context, fn func(store.Reader) error) error {
	s.views.Add(1)
	_, err := s.inTx(ctx, &s.read, func(tx store.Tx) error { return fn(tx) })
	return err
}

// Watch reads like any watcher; its statements are not the turn's.
func (s *countedStore) Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(store.Frame) error) error {
	read := func(after int64, limit int) (found []perdure.Event, err error) {
		_, err = s.inTx(ctx, &s.watching, func(tx store.Tx) error {
			found, err = tx.Events(session, after, limit)
			return err
		})
		return found, err
	}
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Publish shows a frame to the watchers.
func (s *countedStore) Publish(frame store.Frame) { s.hub.Publish(frame) }

// Close closes the database.
func (s *countedStore) Close() error {
	s.hub.Close()
	return s.db.Close()
}

// forget begins the count anew.
func (s *countedStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range []*atomic.Int64{&s.commits, &s.views, &s.written, &s.read, &s.watching} {
		n.Store(0)
	}
	s.texts = map[string]int{}
}

// list writes the statements, the most frequent first.
func (s *countedStore) list(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byCount := slices.SortedFunc(maps.Keys(s.texts), func(a, b string) int {
		return cmp.Or(s.texts[b]-s.texts[a], strings.Compare(a, b))
	})
	for _, text := range byCount {
		fmt.Fprintf(w, "%5d  %s\n", s.texts[text], strings.Join(strings.Fields(text), " "))
	}
}

// counting counts the statements of one transaction.
type counting struct {
	tx *sql.Tx
	of *countedStore // whose lock the transaction holds
	n  *atomic.Int64
}

// ExecContext counts and runs a statement that returns no rows.
func (c counting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.count(query)
	return c.tx.ExecContext(ctx, query, args...)
}

// QueryContext counts and runs a statement that returns rows.
func (c counting) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.count(query)
	return c.tx.QueryContext(ctx, query, args...)
}

func (c counting) count(query string) {
	c.n.Add(1)
	if c.n != &c.of.watching {
		c.of.texts[query]++
	}
}
