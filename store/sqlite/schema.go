package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlstore"
)

// applicationID marks a database as one of Perdure, "Perd", in the header of its file.
const applicationID = 1348825700

const (
	inspectDatabase  = `SELECT (SELECT COUNT(*) FROM sqlite_schema), application_id FROM pragma_application_id`
	setApplicationID = `PRAGMA application_id = 1348825700`
	useLog           = `PRAGMA journal_mode = WAL`
)

// prepare makes the database ready for the writer: marked, in WAL mode, and with the newest schema.
// It reads back every pragma that durability depends on.
func prepare(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, cfg Config) error {
	empty, err := inspect(ctx, db, dialect, cfg.Dir)
	if err != nil {
		return err
	}
	behind := true
	if empty {
		if _, err := db.ExecContext(ctx, setApplicationID); err != nil {
			return fmt.Errorf("mark database: %w", dialect.Explain(err))
		}
	} else if behind, err = isBehind(ctx, db, dialect, cfg.Dir); err != nil {
		return err
	} else if behind && cfg.BeforeMigration != nil {
		stored, known, err := sqlstore.Versions(ctx, db, dialect)
		if err == nil {
			err = cfg.BeforeMigration(ctx, stored, known)
		}
		if err != nil {
			return err
		}
	}
	if _, err := db.ExecContext(ctx, useLog); err != nil {
		return fmt.Errorf("set journal mode: %w", dialect.Explain(err))
	}
	if err := assertSafe(ctx, db, dialect); err != nil || !behind {
		return err
	}
	return sqlstore.Migrate(ctx, db, dialect)
}

// checkReadable checks a database that is opened for reading only. Its schema must be the one that
// this program's statements are written for.
func checkReadable(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, dir string) error {
	empty, err := inspect(ctx, db, dialect, dir)
	switch {
	case isMedium(err):
		return fmt.Errorf("%w: data directory %s cannot be read without writing next to its database: make it "+
			"writable, or copy it to a writable directory: %w",
			perdure.Storage, dir, err)
	case err != nil:
		return err
	case empty:
		return noDatabaseError(dir)
	}
	behind, err := isBehind(ctx, db, dialect, dir)
	if err == nil && behind {
		err = fmt.Errorf("%w: data directory %s was written by an older version: start perdure with it once, which "+
			"brings it up to date",
			perdure.Conflict, dir)
	}
	return err
}

// inspect reports whether a database is empty, and refuses a database that is not one of Perdure.
// It changes nothing.
func inspect(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, dir string) (empty bool, err error) {
	var tables, id int64
	err = db.QueryRowContext(ctx, inspectDatabase).Scan(&tables, &id)
	switch {
	case isDamaged(err):
		return false, damagedError(dir, err)
	case err != nil:
		return false, fmt.Errorf("open database: %w", dialect.Explain(err))
	case tables > 0 && id != applicationID, tables == 0 && id != 0 && id != applicationID:
		return false, &NotDatabaseError{Path: filepath.Join(dir, databaseName), foreign: true}
	}
	return tables == 0, nil
}

// NotDatabaseError reports that the file of the database is no database of Perdure. It was not
// changed. It is a Storage error.
type NotDatabaseError struct {
	Path string

	foreign bool  // it is a database of another program
	err     error // what SQLite says; nil: it can read the file
}

// Error says what the file is.
func (e *NotDatabaseError) Error() string {
	if e.foreign {
		return fmt.Sprintf("%s: %s is a database of another program: it was not changed", perdure.Storage, e.Path)
	}
	return fmt.Sprintf("%s: %s is not a database, or is damaged: it was not changed: %v", perdure.Storage, e.Path, e.err)
}

// Unwrap returns perdure.Storage, and what SQLite says.
func (e *NotDatabaseError) Unwrap() []error {
	if e.err == nil {
		return []error{perdure.Storage}
	}
	return []error{perdure.Storage, e.err}
}

// NotDatabase returns the file, so that a command can suggest to move it.
func (e *NotDatabaseError) NotDatabase() string { return e.Path }

// damagedError is the error of a file that SQLite cannot read, before anything was written.
func damagedError(dir string, err error) error {
	return &NotDatabaseError{Path: filepath.Join(dir, databaseName), err: err}
}

// isBehind reports whether the schema is older than the one this program knows. A newer schema is a
// Conflict.
func isBehind(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, dir string) (bool, error) {
	stored, known, err := sqlstore.Versions(ctx, db, dialect)
	if isDamaged(err) {
		return false, damagedError(dir, err)
	}
	if err != nil {
		return false, err
	}
	if stored > known {
		return false, fmt.Errorf("%w: data directory %s was written by a newer version (schema %d, this program "+
			"knows %d): use that version or a newer one",
			perdure.Conflict, dir, stored, known)
	}
	return stored < known, nil
}

// assertSafe reads back the settings that durability depends on (R6).
func assertSafe(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect) error {
	var version, journal string
	var synchronous, foreignKeys int
	err := errors.Join(
		db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version),
		db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&journal),
		db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&synchronous),
		db.QueryRowContext(ctx, `PRAGMA foreign_keys`).Scan(&foreignKeys),
	)
	switch {
	case err != nil:
		return fmt.Errorf("read pragmas back: %w", dialect.Explain(err))
	case !newEnough(version):
		return fmt.Errorf("%w: SQLite %s is too old: before 3.51.3 it can damage a database", perdure.Storage, version)
	case !strings.EqualFold(journal, "wal"):
		return fmt.Errorf("%w: the journal mode is %s, not wal: the file system may not support it", perdure.Storage,
			journal)
	case synchronous != 2:
		return fmt.Errorf("%w: synchronous is %d, not 2 (FULL)", perdure.Storage, synchronous)
	case foreignKeys != 1:
		return fmt.Errorf("%w: foreign keys are off", perdure.Storage)
	}
	return nil
}

// newEnough reports whether a version has the fix for database corruption by a reset of the
// write-ahead log: 3.51.3 and later.
func newEnough(version string) bool {
	oldest := [...]int{3, 51, 3}
	var v [3]int
	if n, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil || n != 3 {
		return false
	}
	for i, least := range oldest {
		if v[i] != least {
			return v[i] > least
		}
	}
	return true
}
