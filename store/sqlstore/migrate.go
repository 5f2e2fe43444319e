package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Versions returns the schema version of the database and the newest one that this program knows.
// It only reads, which goose would not: goose creates its table if it cannot read it. It fails on a
// database that was never migrated.
func Versions(ctx context.Context, db *sql.DB, dialect Dialect) (stored, known int64, err error) {
	if err = db.QueryRowContext(ctx, schemaStored).Scan(&stored); err == nil {
		known, err = newest()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", dialect.Explain(err))
	}
	return stored, known, nil
}

// Steps returns the names of the migrations after a schema version, in order.
func Steps(stored int64) ([]string, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var steps []string
	for _, file := range files {
		number, err := goose.NumericComponent(file)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		if number > stored {
			steps = append(steps, strings.TrimSuffix(path.Base(file), ".sql"))
		}
	}
	return steps, nil
}

// Migrate brings the schema to the newest version. Running it again does nothing. An interrupted
// migration continues where it stopped, because each step is a transaction.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	provider, err := provider(db, dialect)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", dialect.Explain(err))
	}
	return nil
}

// MigrateTo brings the schema to a version before the newest, for tests of upgrades.
func MigrateTo(ctx context.Context, db *sql.DB, dialect Dialect, version int64) error {
	provider, err := provider(db, dialect)
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate to %d: %w", version, dialect.Explain(err))
	}
	return nil
}

func provider(db *sql.DB, dialect Dialect) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger())}
	if dialect.LockMigrations {
		// number of tries, one second apart
		turns, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300), lock.WithUnlockTimeout(1, 30))
		if err != nil {
			return nil, fmt.Errorf("lock migrations: %w", err)
		}
		options = append(options, goose.WithSessionLocker(turns))
	}
	provider, err := goose.NewProvider(goose.Dialect(dialect.Goose), db, files, options...)
	return wrapped(provider, err, "read migrations")
}
