package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlstore"
)

// DatabaseName is the name of the database file in a data directory.
const DatabaseName = databaseName

// Copy writes a copy of the database of a data directory to a new file. The copy is one consistent
// snapshot, and is on the disk when Copy returns. Readers and writers, in this process or another,
// are not blocked. The copy has no unused pages and no write-ahead log. After an error there is no
// file.
//
// NotFound: there is no database. Conflict: the file exists already. Storage: the database is
// damaged, or the disk is full.
func Copy(ctx context.Context, from, to string) error { return copyFrom(ctx, from, "ro", to) }

// CopySession is Copy for the database of a session. After a crash such a database has a rollback
// journal, so CopySession opens it for writing and rolls the journal back first. Writers wait until
// the copy is made, or receive a busy error. Unavailable: another writer held the database for
// longer than half a minute. Damaged recognises the error of a file that is not readable as a
// database.
func CopySession(ctx context.Context, from, to string) error { return copyFrom(ctx, from, "rw", to) }

// Damaged reports whether an error says that a file is not a database, or is corrupt.
func Damaged(err error) bool { return isDamaged(err) }

func copyFrom(ctx context.Context, from, mode, to string) (err error) {
	db, err := openBeside(from, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // never readable by other users
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists already", perdure.Conflict, to)
	}
	if err != nil {
		return fmt.Errorf("%w: copy %s: %w", perdure.Storage, from, err)
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO $1`, to) // VACUUM INTO accepts an empty file
	if err != nil {
		err = fmt.Errorf("copy %s: %w", from, explain(to, err))
	} else if err = file.Sync(); err != nil {
		err = fmt.Errorf("%w: sync %s: %w", perdure.Storage, to, err)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(to))
	}
	return err
}

const (
	inconsistencies = `SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`
	danglingRows    = `SELECT 'a row of ' || "table" || ' refers to a row of ' || parent || ' that does not exist' FROM pragma_foreign_key_check`
)

// Check reads the whole database of a data directory and returns its faults: inconsistent pages and
// indexes, and rows that refer to missing rows. Without faults the result is nil. Others may use
// the database meanwhile. NotFound: there is no database.
func Check(ctx context.Context, file string) (wrong []string, err error) {
	return check(ctx, file, "ro", inconsistencies, danglingRows)
}

// CheckSession is Check for the database of a session, opened as CopySession does. It does not
// check references, because the session's own tables may refer to tables that are made later.
func CheckSession(ctx context.Context, file string) (wrong []string, err error) {
	return check(ctx, file, "rw", inconsistencies)
}

// CheckSessionCopy is CheckSession for a copy made by CopySession. It only reads.
func CheckSessionCopy(ctx context.Context, file string) (wrong []string, err error) {
	return check(ctx, file, "ro", inconsistencies)
}

// check asks questions whose answers are what is wrong.
func check(ctx context.Context, file, mode string, questions ...string) (wrong []string, err error) {
	db, err := openBeside(file, mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, question := range questions {
		found, err := texts(ctx, db, question)
		wrong = append(wrong, found...)
		switch {
		case isDamaged(err):
			return append(wrong, err.Error()), nil
		case err != nil:
			return wrong, fmt.Errorf("check %s: %w", file, explain(file, err))
		}
	}
	return wrong, nil
}

// Blobs returns the set of SHA-256 sums of the blobs that the database of a data directory refers
// to. For a schema without images it is empty. NotFound: there is no database.
func Blobs(ctx context.Context, file string) (named map[string]bool, err error) {
	db, err := openBeside(file, "ro")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	named = map[string]bool{}
	tables, err := texts(ctx, db, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'image'`)
	if err == nil && len(tables) > 0 {
		var sums []string
		sums, err = texts(ctx, db, `SELECT DISTINCT sha256 FROM image WHERE is_blob`)
		for _, sum := range sums {
			named[sum] = true
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the blobs of %s: %w", file, explain(file, err))
	}
	return named, nil
}

// Versions returns the schema version of a data directory and the newest one that this program
// knows. NotFound: there is no database.
func Versions(ctx context.Context, file string) (stored, known int64, err error) {
	db, err := openBeside(file, "ro")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return sqlstore.Versions(ctx, db, newDialect(Config{Dir: file}))
}

// openBeside opens a database for reading while others may write it. The mode rw rolls back what a
// crash left.
func openBeside(file, mode string) (*sql.DB, error) {
	switch _, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no database %s", perdure.NotFound, file)
	case err != nil:
		return nil, fmt.Errorf("%w: %s is not readable: %w", perdure.Storage, file, err)
	}
	dsn := url.URL{Scheme: "file", Path: file, RawQuery: url.Values{"mode": {mode},
		"_pragma": {"busy_timeout(30000)"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", perdure.Storage, file, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// texts reads all rows of a query with one text column.
func texts(ctx context.Context, db *sql.DB, query string) (found []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return found, err
		}
		found = append(found, text)
	}
	return found, rows.Err()
}
