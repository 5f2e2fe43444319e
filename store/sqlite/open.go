package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	driver "modernc.org/sqlite"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

const databaseName = "perdure.db"

// Config says what to open. Only Dir is required.
type Config struct {
	Dir      string           // the data directory; made, for its owner alone, where it is missing
	ReadOnly bool             // no lock, no writing, no migration: reads beside a holder and without one
	Now      func() time.Time // the store's clock; nil: time.Now
	Program  string           // who holds the lock, for the message to others; empty: the program's name
	Readers  int              // connections for View; 0: 4
	Reserve  int64            // bytes kept aside, as a file, for urgent transactions on a full disk; 0: none, and none on a disk of less than three times that
	MaxPages int              // pages of 4 KiB that the database may have before the disk counts as full; 0: no limit
	// BeforeMigration is called, with the lock held, before an older schema is brought up to date; for a new database it is not.
	// Its error ends the opening, and nothing was changed. nil: nothing is done before.
	BeforeMigration func(ctx context.Context, stored, known int64) error
}

// Open opens a data directory.
//
// For writing: Conflict when another process holds it, a newer version wrote it, or it is a backup ([*BackupError]); Storage when the
// directory cannot be written or perdure.db is no database of ours, which is then left as it is.
// For reading only: NotFound when nothing is there yet. ctx ends the opening, not the store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("%w: no data directory given", perdure.Invalid)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: data directory %s: %w", perdure.Invalid, cfg.Dir, err)
	}
	cfg.Dir = dir
	cfg.Program = cmp.Or(cfg.Program, filepath.Base(os.Args[0]))
	cfg.Readers = cmp.Or(cfg.Readers, 4)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	// Else any other descriptor of the file that this process closes takes SQLite's locks with it. Where
	// it cannot be had, or comes too late, nothing of ours opens the file beside SQLite.
	_, _ = driver.OFDLocking(true)
	if cfg.ReadOnly {
		return openForReading(ctx, cfg)
	}
	return openForWriting(ctx, cfg)
}

func openForWriting(ctx context.Context, cfg Config) (_ *Store, err error) {
	if err := RefuseBackup(cfg.Dir); err != nil {
		return nil, err
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir, cfg.Now(), cfg.Program)
	if err != nil {
		return nil, err
	}
	undo := []func() error{lock.release}
	defer func() {
		if err != nil {
			for _, step := range slices.Backward(undo) {
				err = errors.Join(err, step())
			}
		}
	}()
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	undo = append(undo, s.readers.close)
	dialect := s.readers.dialect
	// A foreign file is refused by a connection that only reads: to close one that writes may change it.
	// What it cannot read, because it is not there or was left halfway, is for the writer to judge.
	if _, err := inspect(ctx, s.readers.db, dialect, cfg.Dir); err != nil && !isMedium(err) {
		return nil, err
	}
	db, err := openDatabase(cfg, writerPragmas(cfg))
	if err != nil {
		return nil, err
	}
	undo = append(undo, db.Close)
	db.SetMaxOpenConns(1)
	if err := prepare(ctx, db, dialect, cfg); err != nil {
		return nil, err
	}
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, dialect.Explain(err)
	}
	s.lock, s.db, s.writer = lock, db, newWriter(conn, dialect, s.hub.Notify)
	s.writer.log = filepath.Join(cfg.Dir, databaseName+"-wal")
	// What a life before left in the log may look written and not be: a sync of it may have failed (R6). It is written
	// anew, to the database, before anything is built on it.
	s.writer.checkpoint()
	if err := s.writer.broken(); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	if s.writer.mover, err = openMover(ctx, cfg); err != nil {
		return nil, errors.Join(dialect.Explain(err), conn.close())
	}
	s.reserve = newReserve(cfg.Dir, cfg.Reserve)
	go s.writer.run() // until Close, which waits for it
	return s, nil
}

func openForReading(ctx context.Context, cfg Config) (*Store, error) {
	file := filepath.Join(cfg.Dir, databaseName)
	switch _, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nothingThere(cfg.Dir)
	case err != nil:
		return nil, fmt.Errorf("%w: data directory %s cannot be read: %w", perdure.Storage, cfg.Dir, err)
	}
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkReadable(ctx, s.readers.db, s.readers.dialect, cfg.Dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newStore makes what both kinds of store have. It opens no file yet.
func newStore(cfg Config) (*Store, error) {
	db, err := openDatabase(cfg, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}})
	if err != nil {
		return nil, err
	}
	return &Store{dir: cfg.Dir, hub: store.NewHub(), readers: newReaders(db, newDialect(cfg), cfg.Readers)}, nil
}

func newDialect(cfg Config) sqlstore.Dialect {
	return sqlstore.Dialect{
		Goose:   "sqlite3",
		Clock:   func(context.Context, sqlstore.DB) (time.Time, error) { return cfg.Now(), nil },
		Explain: func(err error) error { return explain(cfg.Dir, err) },
	}
}

// writerPragmas are those that hold for a connection only, so that a foreign file is looked at before
// anything in it changes.
func writerPragmas(cfg Config) url.Values {
	pragmas := []string{
		"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)",
		"fullfsync(1)",                 // on macOS a sync is one only with it; elsewhere it means nothing
		"wal_autocheckpoint(0)",        // the writer does it, and looks at the errors
		"journal_size_limit(67108864)", // what a burst leaves of the log's file
	}
	if cfg.MaxPages > 0 {
		pragmas = append(pragmas, "max_page_count("+strconv.Itoa(cfg.MaxPages)+")")
	}
	return url.Values{"_txlock": {"immediate"}, "_dqs": {"0"}, "_pragma": pragmas}
}

func openDatabase(cfg Config, query url.Values) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: filepath.Join(cfg.Dir, databaseName), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", perdure.Storage, dsn.Path, err)
	}
	return db, nil
}

// makeDir makes the data directory where it is missing, durably.
func makeDir(dir string) error {
	switch _, err := os.Stat(dir); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: data directory %s: %w", perdure.Storage, dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: data directory %s cannot be made: make its parent writable, or use --data with another directory: %w",
			perdure.Storage, dir, err)
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("%w: sync parent of data directory %s: %w", perdure.Storage, dir, err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return fmt.Errorf("%w: sync parent of data directory %s: %w", perdure.Storage, dir, err)
	}
	return nil
}

func nothingThere(dir string) error {
	return fmt.Errorf("%w: there is nothing in data directory %s yet: start perdure with it, or use --data with another directory",
		perdure.NotFound, dir)
}
