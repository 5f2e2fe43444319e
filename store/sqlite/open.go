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

// Config configures Open. Only Dir is required.
type Config struct {
	Dir      string           // the data directory; created with mode 0700 if missing
	ReadOnly bool             // opens for reading only: no lock, no write, no migration
	Now      func() time.Time // the store's clock; nil: time.Now
	Program  string           // names the owner of the lock in messages of other processes; empty: the program's name
	Readers  int              // maximal number of connections for View; 0: 4
	// Reserve is the number of bytes kept in a file for urgent transactions on a full disk. 0: no
	// reserve. A disk smaller than three times that gets none either.
	Reserve int64
	// MaxPages is the number of 4 KiB pages at which the database counts as full. 0: no limit.
	MaxPages int
	// BeforeMigration is called, with the lock held, before an older schema is migrated, but not
	// for a new database. Its error aborts Open, and nothing was changed. nil: no call.
	BeforeMigration func(ctx context.Context, stored, known int64) error
}

// Without open file description locks, closing any other descriptor of a database in this process
// would release SQLite's locks. Where they are not available, nothing else in this program opens
// the file while SQLite uses it.
//
// The kind of lock is chosen while the program starts and nothing else runs. The driver reads its
// own default at its first use, and two first uses at once can set that default over the choice:
// then some locks are of one kind and some of the other, and they exclude each other.
var _ = lockByDescription()

func lockByDescription() error {
	_, err := driver.OFDLocking(true)
	return err
}

// Open opens a data directory.
//
// Opening for writing: Conflict if another process holds the directory, a newer version wrote it,
// or it is a backup ([*BackupError]); Storage if the directory is not writable, or perdure.db is
// not a database of Perdure, which is then left unchanged. Opening for reading only: NotFound if
// there is no database yet. ctx limits Open, not the store.
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
	// A connection that only reads refuses a foreign file: closing one that writes may change the
	// file. If it fails to read because the file is missing or was left by a crash, the writer
	// decides.
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
	// What an earlier process left in the log may look written without being on the disk, since a
	// sync may have failed (R6). The checkpoint writes it to the database before anything builds on
	// it.
	s.writer.checkpoint()
	if err := s.writer.broken(); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	if s.writer.checkpointer, err = openCheckpointer(ctx, cfg); err != nil {
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
		return nil, noDatabaseError(cfg.Dir)
	case err != nil:
		return nil, fmt.Errorf("%w: data directory %s is not readable: %w", perdure.Storage, cfg.Dir, err)
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

// newStore makes the parts that both kinds of store have. It opens no file yet.
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

// writerPragmas returns pragmas that only affect a connection, so that a foreign file can be
// inspected before anything in it changes.
func writerPragmas(cfg Config) url.Values {
	pragmas := []string{
		"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)",
		"fullfsync(1)",                 // on macOS only this makes a sync durable; elsewhere it has no effect
		"wal_autocheckpoint(0)",        // the writer checkpoints, and handles the errors
		"journal_size_limit(67108864)", // the size of the log's file after a burst
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

// makeDir creates the data directory durably if it is missing.
func makeDir(dir string) error {
	switch _, err := os.Stat(dir); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: data directory %s: %w", perdure.Storage, dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w: data directory %s cannot be created: make its parent writable, or use "+
			"another directory: %w",
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

func noDatabaseError(dir string) error {
	return fmt.Errorf("%w: there is nothing in data directory %s yet: start perdure with it, or use "+
		"another directory",
		perdure.NotFound, dir)
}
