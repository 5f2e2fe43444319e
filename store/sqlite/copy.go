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

// Copy writes a copy of a database, of ours or of a session, to a file that is not there yet, as of one moment and on the
// disk when it returns. Others read and write meanwhile, in this process or in another; they wait for nothing. The copy has
// no unused pages and no log beside it. After an error there is no file.
//
// NotFound: there is no database. Conflict: the file is there. Storage: the database is damaged, or there is no space.
func Copy(ctx context.Context, from, to string) (err error) {
	db, err := openBeside(from)
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

// Check reads a database whole and says what is wrong with it: pages and indexes that do not fit together, rows that refer
// to nothing. Nothing wrong is nil. It runs beside others. NotFound: there is no database.
func Check(ctx context.Context, file string) (wrong []string, err error) {
	db, err := openBeside(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, question := range []string{
		`SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		`SELECT 'a row of ' || "table" || ' refers to a row of ' || parent || ' that is not there' FROM pragma_foreign_key_check`,
	} {
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

// Versions returns the number of the schema of a data directory and the newest that this program knows. NotFound: there is
// no database.
func Versions(ctx context.Context, file string) (stored, known int64, err error) {
	db, err := openBeside(file)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return sqlstore.Versions(ctx, db, newDialect(Config{Dir: file}))
}

// openBeside opens a database for reading, whoever writes it.
func openBeside(file string) (*sql.DB, error) {
	switch _, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no database %s", perdure.NotFound, file)
	case err != nil:
		return nil, fmt.Errorf("%w: %s cannot be read: %w", perdure.Storage, file, err)
	}
	_, _ = driver.OFDLocking(true) // as Open
	dsn := url.URL{Scheme: "file", Path: file, RawQuery: url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(30000)"}}.Encode()}
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
