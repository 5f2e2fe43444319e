package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"time"

	"github.com/perdure/perdure/store/sqlstore"
)

// PrepareWith prepares a database as Open does before anything is written to it, over a connection
// of the test.
func PrepareWith(ctx context.Context, db *sql.DB, dir string) error {
	return prepare(ctx, db, newDialect(Config{Dir: dir, Now: time.Now}), Config{Dir: dir})
}

// MigrateTo brings a database to the schema of one step.
func MigrateTo(ctx context.Context, db *sql.DB, version int64) error {
	return sqlstore.MigrateTo(ctx, db, newDialect(Config{Now: time.Now}), version)
}

// WriterDSN returns the data source name with which Open opens the database of a directory for
// writing.
func WriterDSN(dir string) string {
	dsn := url.URL{Scheme: "file", Path: filepath.Join(dir, databaseName), RawQuery: writerPragmas(Config{}).Encode()}
	return dsn.String()
}
