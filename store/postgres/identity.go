package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
)

// whichDatabase tells databases apart: no two servers began in the same microsecond, and within one server and one database
// each schema has its own tables.
const whichDatabase = `SELECT format('%s %s %s', (SELECT oid FROM pg_database WHERE datname = current_database()), current_schema(), extract(epoch FROM pg_postmaster_start_time()))`

// Identity tells whether two URLs lead to one store: they do where it gives the same text. Addresses, users, passwords and options
// do not count, since the server itself is asked. The text names none of them. It is another one after the server began anew,
// so it is compared at once and not kept. The database is only read, and need not be in use yet.
//
// Invalid: the URL cannot be read. Unavailable: the database cannot be reached, or refuses us.
func Identity(ctx context.Context, cfg Config) (_ string, err error) {
	cfg = cfg.filled()
	parsed, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return "", fmt.Errorf("%w database URL: %w", perdure.Invalid, err)
	}
	ctx, stop := context.WithTimeout(ctx, cfg.attempt())
	defer stop()
	conn, err := pgx.ConnectConfig(ctx, cfg.named(parsed))
	if err != nil {
		return "", fmt.Errorf("reach the database: %w", explain(err))
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was changed
	var text string
	if err := conn.QueryRow(ctx, whichDatabase).Scan(&text); err != nil {
		return "", fmt.Errorf("ask which database it is: %w", explain(err))
	}
	sum := sha256.Sum256([]byte("postgres " + text))
	return hex.EncodeToString(sum[:16]), nil
}
