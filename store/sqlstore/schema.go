package sqlstore

import (
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/perdure/perdure/store"
)

const schemaStored = `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version`

var _ store.SchemaReader = (*Tx)(nil)

// Schema returns the schema version of the database, and the newest one that this program knows.
func (tx *Tx) Schema() (stored, known int64, err error) {
	if stored, err = one(tx, number, schemaStored); err == nil {
		known, err = newest()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", err)
	}
	return stored, known, nil
}

// newest returns the number of the last migration.
func newest() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(files[len(files)-1])
}
