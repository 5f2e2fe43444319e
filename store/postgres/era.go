package postgres

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// A server era is the period in which a server gives each transaction id once. A crash ends an era,
// and so does a failover to a standby: ids that had not reached the disk, or the standby, may be
// given again. A clean restart does not end it.
//
// The table server_life is unlogged, so everything that ends an era also empties it. Its one row
// holds a random key, inserted by the first process that finds the table empty, and thus identifies
// one era.

// readEra reads the key of the current era, after inserting one if there is none. The %s is a new
// key.
const readEra = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; INSERT INTO server_life (one, word) VALUES (TRUE, '%s') ON CONFLICT DO NOTHING;
	SELECT word FROM server_life; COMMIT`

// eraOfServer is the name under which a connection stores the key in pgconn's custom data. A
// connection ends with the era.
const eraOfServer = "perdure era"

// loadEra is the first thing that a connection for transactions runs.
func loadEra(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, fmt.Sprintf(readEra, rand.Text())).ReadAll()
	if err != nil {
		return err
	}
	for _, r := range results {
		for _, row := range r.Rows {
			conn.CustomData()[eraOfServer] = string(row[0])
		}
	}
	return nil
}
