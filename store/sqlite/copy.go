package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	driver "modernc.org/sqlite"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlstore"
)

// DatabaseName is the name of the database in its data directory.
const DatabaseName = databaseName

// Copy writes a copy of the database of a data directory to a file that is not there yet, as of one moment and on the
// disk when it returns. Others read and write meanwhile, in this process or in another; they wait for nothing. The copy has
// no unused pages and no log beside it. After an error there is no file.
//
// NotFound: there is no database. Conflict: the file is there. Storage: the database is damaged, or there is no space.
func Copy(ctx context.Context, from, to string) error { return copyFrom(ctx, from, "ro", to) }

// CopySession is Copy for a database of a session. That one has a journal which a crash leaves to be rolled back, so it is
// opened for writing, and rolled back first. Whoever writes to it meanwhile waits until the copy is made, or is told that it
// is busy. Unavailable: somebody wrote to it for longer than half a minute. Damaged tells an error of a file that nobody can
// read as a database.
func CopySession(ctx context.Context, from, to string) error { return copyFrom(ctx, from, "rw", to) }

// Damaged reports whether an error says that a file is no database, or not a whole one.
func Damaged(err error) bool { return isDamaged(err) }

func copyFrom(ctx context.Context, from, mode, to string) (err error) {
	db, err := openBeside(from, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it is nobody else's to read, at no moment
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s is there already", perdure.Conflict, to)
	}
	if err != nil {
		return fmt.Errorf("%w: copy %s: %w", perdure.Storage, from, err)
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO $1`, to) // into an empty file, which counts as none
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
	misfits = `SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`
	strays  = `SELECT 'a row of ' || "table" || ' refers to a row of ' || parent || ' that is not there' FROM pragma_foreign_key_check`
)

// Check reads the database of a data directory whole and says what is wrong with it: pages and indexes that do not fit
// together, rows that refer to nothing. Nothing wrong is nil. It runs beside others. NotFound: there is no database.
func Check(ctx context.Context, file string) (wrong []string, err error) {
	return check(ctx, file, "ro", misfits, strays)
}

// CheckSession is Check for a database of a session, opened as CopySession does. What refers to nothing there is the
// session's own: its tables may name others that are yet to be made.
func CheckSession(ctx context.Context, file string) (wrong []string, err error) {
	return check(ctx, file, "rw", misfits)
}

// CheckSessionCopy is CheckSession for a copy that CopySession made, which is only read.
func CheckSessionCopy(ctx context.Context, file string) (wrong []string, err error) {
	return check(ctx, file, "ro", misfits)
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

// Blobs returns the SHA-256 of each blob that the database of a data directory names; of a schema without images, none.
// NotFound: there is no database.
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

// Versions returns the number of the schema of a data directory and the newest that this program knows. NotFound: there is
// no database.
func Versions(ctx context.Context, file string) (stored, known int64, err error) {
	db, err := openBeside(file, "ro")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return sqlstore.Versions(ctx, db, newDialect(Config{Dir: file}))
}

// openBeside opens a database for reading, whoever writes it. With the mode rw what a crash left is rolled back by that.
func openBeside(file, mode string) (*sql.DB, error) {
	switch _, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no database %s", perdure.NotFound, file)
	case err != nil:
		return nil, fmt.Errorf("%w: %s cannot be read: %w", perdure.Storage, file, err)
	}
	_, _ = driver.OFDLocking(true) // as Open
	dsn := url.URL{Scheme: "file", Path: file, RawQuery: url.Values{"mode": {mode}, "_pragma": {"busy_timeout(30000)"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", perdure.Storage, file, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// texts reads all rows of one text.
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
