package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlstore"
)

// oldestServer is the first version that has all that is asked of it: 14.
const oldestServer = 140000

// The statements about the database as a whole.
const (
	lookInside = `SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_encoding'),
		current_setting('synchronous_commit'), to_regclass('goose_db_version') IS NOT NULL`
	takeTurns    = `SELECT pg_advisory_xact_lock($1)`
	makeSequence = `CREATE SEQUENCE IF NOT EXISTS row_position`
)

// prepare makes the database ready: one that keeps what it acknowledges, with the newest schema.
func prepare(ctx context.Context, db *sql.DB) error {
	var version int64
	var encoding, synchronous string
	var migrated bool
	if err := db.QueryRowContext(ctx, lookInside).Scan(&version, &encoding, &synchronous, &migrated); err != nil {
		return err
	}
	switch {
	case version < oldestServer:
		return fmt.Errorf("%w: the server's version is %d.%d: use PostgreSQL 14 or newer", perdure.Conflict, version/10_000, version%10_000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database's encoding is %s: make one with ENCODING 'UTF8'", perdure.Conflict, encoding)
	case synchronous == "off":
		return fmt.Errorf("%w: synchronous_commit is off, so that an acknowledged commit may be lost: set it to on for this database or user", perdure.Conflict)
	}
	if migrated {
		behind, err := isBehind(ctx, db)
		if err != nil || !behind {
			return err
		}
	}
	if err := inTurn(ctx, db, makeSequence); err != nil {
		return fmt.Errorf("make the sequence: %w", err)
	}
	return sqlstore.Migrate(ctx, db, reading())
}

// isBehind reports whether the schema is older than the one that this program knows. A newer one is refused.
func isBehind(ctx context.Context, db *sql.DB) (bool, error) {
	stored, known, err := sqlstore.Versions(ctx, db, reading())
	if err != nil {
		return false, err
	}
	if stored > known {
		return false, fmt.Errorf("%w: the database was written by a newer version (schema %d, this program knows %d): use that version or a newer one",
			perdure.Conflict, stored, known)
	}
	return stored < known, nil
}

// inTurn runs a statement that two processes must not run at once.
func inTurn(ctx context.Context, db *sql.DB, statement string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, takeTurns, lockNumber("schema"))
	if err == nil {
		_, err = tx.ExecContext(ctx, statement)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
