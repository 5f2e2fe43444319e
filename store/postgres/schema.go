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

// oldestServer is the first version that has all that is asked of it: 14.
const oldestServer = 140000

// The statements about the database as a whole.
const (
	lookInside = `SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_encoding'),
		current_setting('synchronous_commit'), to_regclass('goose_db_version') IS NOT NULL, to_regclass('server_life') IS NOT NULL`
	isMigrated   = `SELECT to_regclass('goose_db_version') IS NOT NULL`
	takeTurns    = `SELECT pg_advisory_xact_lock($1)`
	makeSequence = `CREATE SEQUENCE IF NOT EXISTS row_position`
	makeLife     = `CREATE UNLOGGED TABLE IF NOT EXISTS server_life (one BOOLEAN PRIMARY KEY CHECK (one), word TEXT NOT NULL)`
)

// prepare makes the database ready: one that keeps what it acknowledges, with the newest schema. With readOnly it only looks
// whether it is.
func prepare(ctx context.Context, db *sql.DB, readOnly bool) error {
	var version int64
	var encoding, synchronous string
	var migrated, lives bool
	if err := db.QueryRowContext(ctx, lookInside).Scan(&version, &encoding, &synchronous, &migrated, &lives); err != nil {
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
	behind := false
	if migrated {
		var err error
		if behind, err = isBehind(ctx, db); err != nil || !behind && lives {
			return err
		}
	}
	switch {
	case readOnly && !migrated:
		return fmt.Errorf("%w: nothing is in this database yet: run  perdure serve  with it, or check the database's name in its URL", perdure.NotFound)
	case readOnly && behind:
		return fmt.Errorf("%w: the database was written by an older version: run  perdure serve  of this version with it once, which brings it up to date", perdure.Conflict)
	case readOnly:
		return nil // only transactions need what is not there
	}
	if err := inTurn(ctx, db, makeSequence, makeLife); err != nil {
		return fmt.Errorf("make what stands beside the schema: %w", err)
	}
	return sqlstore.Migrate(ctx, db, reading())
}

// Versions returns the number of the schema of a database and the newest that this program knows. It only looks. NotFound: nobody
// has used the database yet. The other errors are those of [Open].
func Versions(ctx context.Context, cfg Config) (stored, known int64, err error) {
	cfg = cfg.filled()
	parsed, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return 0, 0, fmt.Errorf("%w database URL: %w", perdure.Invalid, err)
	}
	db := openPool(cfg.named(parsed), 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	var migrated bool
	if err := db.QueryRowContext(ctx, isMigrated).Scan(&migrated); err != nil {
		return 0, 0, fmt.Errorf("look at the database: %w", explain(err))
	}
	if !migrated {
		return 0, 0, fmt.Errorf("%w: nothing is in this database yet: check its name in the URL", perdure.NotFound)
	}
	return sqlstore.Versions(ctx, db, reading())
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

// inTurn runs statements that two processes must not run at once.
func inTurn(ctx context.Context, db *sql.DB, statements ...string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, takeTurns, lockNumber("schema"))
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
