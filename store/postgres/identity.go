package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
)

// whichDatabase identifies a database. No two servers started in the same microsecond, and within
// one server and one database each schema has its own tables.
const whichDatabase = `SELECT format('%s %s %s', (SELECT oid FROM pg_database WHERE datname = current_database()), current_schema(), extract(epoch FROM pg_postmaster_start_time()))`

// Identity returns a text that is equal for two URLs if and only if they lead to the same store.
// Addresses, users, passwords and options do not matter, since the server itself is asked, and the
// text contains none of them. It changes when the server restarts, so it must be compared at once
// and not stored. The database is only read, and may be unused yet.
//
// Invalid: the URL cannot be parsed. Unavailable: the database cannot be reached, or refuses the
// connection.
func Identity(ctx context.Context, cfg Config) (_ string, err error) {
	cfg = cfg.withDefaults()
	parsed, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return "", fmt.Errorf("%w database URL: %w", perdure.Invalid, err)
	}
	ctx, stop := context.WithTimeout(ctx, cfg.attempt())
	defer stop()
	conn, err := pgx.ConnectConfig(ctx, cfg.connConfig(parsed))
	if err != nil {
		return "", fmt.Errorf("reach the database: %w", explain(err))
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was changed
	var text string
	if err := conn.QueryRow(ctx, whichDatabase).Scan(&text); err != nil {
		return "", fmt.Errorf("identify the database: %w", explain(err))
	}
	sum := sha256.Sum256([]byte("postgres " + text))
	return hex.EncodeToString(sum[:16]), nil
}
