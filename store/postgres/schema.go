package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlstore"
)

// oldestServer is the oldest supported version: 14.
const oldestServer = 140000

// The statements about the whole database.
const (
	inspectDatabase = `SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_encoding'),
		current_setting('synchronous_commit'), to_regclass('goose_db_version') IS NOT NULL, to_regclass('server_life') IS NOT NULL`
	isMigrated   = `SELECT to_regclass('goose_db_version') IS NOT NULL`
	lockSchema   = `SELECT pg_advisory_xact_lock($1)`
	makeSequence = `CREATE SEQUENCE IF NOT EXISTS row_position`
	makeEraTable = `CREATE UNLOGGED TABLE IF NOT EXISTS server_life (one BOOLEAN PRIMARY KEY CHECK (one), word TEXT NOT NULL)`
)

// prepare makes the database ready: it checks the server's settings and brings the schema up to
// date. With readOnly it only checks.
func prepare(ctx context.Context, db *sql.DB, readOnly bool) error {
	var version int64
	var encoding, synchronous string
	var migrated, hasEras bool
	if err := db.QueryRowContext(ctx, inspectDatabase).Scan(&version, &encoding, &synchronous, &migrated,
		&hasEras); err != nil {
		return err
	}
	switch {
	case version < oldestServer:
		return fmt.Errorf("%w: the server's version is %d.%d: use PostgreSQL 14 or newer", perdure.Conflict,
			version/10_000, version%10_000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database's encoding is %s: create one with ENCODING 'UTF8'", perdure.Conflict,
			encoding)
	case synchronous == "off":
		return fmt.Errorf("%w: synchronous_commit is off, so an acknowledged commit may be lost: set it to on for "+
			"this database or user", perdure.Conflict)
	}
	behind := false
	if migrated {
		var err error
		if behind, err = isBehind(ctx, db); err != nil || !behind && hasEras {
			return err
		}
	}
	switch {
	case readOnly && !migrated:
		return fmt.Errorf("%w: this database has no Perdure data yet: run  perdure serve  with it, or check the "+
			"database's name in its URL", perdure.NotFound)
	case readOnly && behind:
		return fmt.Errorf("%w: the database was written by an older version: run  perdure serve  of this version "+
			"with it once, which brings it up to date", perdure.Conflict)
	case readOnly:
		return nil // only transactions need the missing table
	}
	if err := runExclusive(ctx, db, makeSequence, makeEraTable); err != nil {
		return fmt.Errorf("create sequence and server_life: %w", err)
	}
	return sqlstore.Migrate(ctx, db, baseDialect())
}

// Versions returns the schema version of a database and the newest one that this program knows. It
// only reads. NotFound: the database was never used. The other errors are those of [OutputOpen].
func Versions(ctx context.Context, cfg Config) (stored, known int64, err error) {
	cfg = cfg.withDefaults()
	parsed, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return 0, 0, fmt.Errorf("%w database URL: %w", perdure.Invalid, err)
	}
	db := openPool(cfg.connConfig(parsed), 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	var migrated bool
	if err := db.QueryRowContext(ctx, isMigrated).Scan(&migrated); err != nil {
		return 0, 0, fmt.Errorf("inspect the database: %w", explain(err))
	}
	if !migrated {
		return 0, 0, fmt.Errorf("%w: this database has no Perdure data yet: check its name in the URL",
			perdure.NotFound)
	}
	return sqlstore.Versions(ctx, db, baseDialect())
}

// isBehind reports whether the schema is older than the one this program knows. A newer schema is a
// Conflict.
func isBehind(ctx context.Context, db *sql.DB) (bool, error) {
	stored, known, err := sqlstore.Versions(ctx, db, baseDialect())
	if err != nil {
		return false, err
	}
	if stored > known {
		return false, fmt.Errorf("%w: the database was written by a newer version (schema %d, this program knows "+
			"%d): use that version or a newer one",
			perdure.Conflict, stored, known)
	}
	return stored < known, nil
}

// runExclusive runs statements that two processes must not run at once.
func runExclusive(ctx context.Context, db *sql.DB, statements ...string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, lockSchema, lockNumber("schema"))
	for _, statement := range statements {
		if err == nil {
			_, err = tx.ExecContext(ctx, statement)
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
