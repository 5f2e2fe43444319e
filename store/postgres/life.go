package postgres

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// A life of a server is the time in which its numbers of transactions are each given once. A crash ends one, and so does a
// standby that takes over: what was not on the disk, or had not arrived, may be numbered anew. The table server_life has no
// log, so whatever ends a life empties it, and the word in it, drawn by whoever finds it empty, is that of one life.

// askLife answers the word of the life, after it drew one where there is none. A %s is a fresh word.
const askLife = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; INSERT INTO server_life (one, word) VALUES (TRUE, '%s') ON CONFLICT DO NOTHING;
	SELECT word FROM server_life; COMMIT`

// lifeOfServer is where a connection keeps the word, among what pgconn lets its users keep. A connection ends with the life.
const lifeOfServer = "perdure life"

// noteLife is what a connection for transactions does first.
func noteLife(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, fmt.Sprintf(askLife, rand.Text())).ReadAll()
	if err != nil {
		return err
	}
	for _, r := range results {
		for _, row := range r.Rows {
			conn.CustomData()[lifeOfServer] = string(row[0])
		}
	}
	return nil
}
