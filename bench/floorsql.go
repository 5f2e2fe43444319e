package main

// The SQL of the floor: a ledger of calls and a journal of events, and nothing else. On SQLite rows
// are appended to their table, and an index finds them by session. Measurements show that this is
// faster than tables without a rowid, whose long rows spread over as many pages as there are
// sessions.
const (
	floorUseLog = `PRAGMA journal_mode = WAL`
	floorSchema = `
		CREATE TABLE note (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
		CREATE TABLE call (
			session_id TEXT NOT NULL, call_id TEXT NOT NULL, state TEXT NOT NULL, token TEXT NOT NULL,
			args BLOB NOT NULL, result BLOB, claimed_us BIGINT NOT NULL, settled_us BIGINT NOT NULL,
			PRIMARY KEY (session_id, call_id)
		);
		CREATE TABLE event (
			session_id TEXT NOT NULL, seq BIGINT NOT NULL, at_us BIGINT NOT NULL, body BLOB NOT NULL,
			PRIMARY KEY (session_id, seq)
		);`
	floorSchemaPostgres = `
		DROP TABLE IF EXISTS note, call, event; -- of the floor before
		CREATE TABLE note (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body BYTEA NOT NULL);
		CREATE TABLE call (
			session_id TEXT NOT NULL, call_id TEXT NOT NULL, state TEXT NOT NULL, token TEXT NOT NULL,
			args BYTEA NOT NULL, result BYTEA, claimed_us BIGINT NOT NULL, settled_us BIGINT NOT NULL,
			PRIMARY KEY (session_id, call_id)
		);
		CREATE TABLE event (
			session_id TEXT NOT NULL, seq BIGINT NOT NULL, at_us BIGINT NOT NULL, body BYTEA NOT NULL,
			PRIMARY KEY (session_id, seq)
		);`

	floorBegin         = `BEGIN IMMEDIATE`
	floorBeginPostgres = `BEGIN`
	floorCommit        = `COMMIT`
	floorRollback      = `ROLLBACK`
	floorNote          = `INSERT INTO note (body) VALUES ($1)`
	floorClaim         = `INSERT INTO call (session_id, call_id, state, token, args, claimed_us, settled_us) VALUES ($1, $2, 'running', $3, $4, $5, 0)`
	floorSettle        = `UPDATE call SET state = 'settled', result = $4, settled_us = $5
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = 'running'`
	floorEvent = `INSERT INTO event (session_id, seq, at_us, body) VALUES ($1, $2, $3, $4)`

	// floorSessions reads the columns that a list of sessions shows, from the table of the store
	// itself.
	floorSessions = `SELECT id, parent_id, root_id, forked_id, title, status, last_seq, created_us, updated_us
		FROM session ORDER BY created_us DESC, id DESC LIMIT $1`

	askJournalMode = `PRAGMA journal_mode`
	askSynchronous = `PRAGMA synchronous`
	askVersion     = `SELECT sqlite_version()`
	askServer      = `SHOW server_version`

	tellStatements = `ALTER DATABASE %s SET log_statement = 'all'` // for all later connections
)

// floorTexts returns the statements that the floor prepares on each connection.
func floorTexts(begin string) []string {
	return []string{begin, floorCommit, floorRollback, floorNote, floorClaim, floorSettle, floorEvent}
}
