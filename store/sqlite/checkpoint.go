package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
)

// The first statement counts the pages of the write-ahead log that the database does not have yet.
// The second one moves them there without waiting for readers or writers. The third one also
// truncates the file of the log.
const (
	measureLog  = `PRAGMA wal_checkpoint(NOOP)`
	moveLog     = `PRAGMA wal_checkpoint(PASSIVE)`
	truncateLog = `PRAGMA wal_checkpoint(TRUNCATE)`
)

// minTruncateBytes is the size of the log's file, in bytes, from which it is truncated when disk
// space is short.
const minTruncateBytes = 1 << 20

// The number of pages of 4 KiB in the log at which they are moved to the database, and at which the
// writer waits for the move.
const (
	logPages    = 4000
	maxLogPages = logPages * 3 / 2
)

// checkpointer moves the log into the database next to the writer, over a connection of its own: to
// move a full log takes as long as many commits. Pages that are committed during the move are left
// for the writer, since SQLite only restarts the log when the database has all of it.
//
// Only the writer's goroutine calls its methods. A nil mover never moves anything.
type checkpointer struct {
	db   *sql.DB
	conn *connection   // only used by the moving goroutine while there is one
	done chan struct{} // closed when the move has ended; nil: no move
}

// openCheckpointer makes a mover for the database that the writer has opened.
func openCheckpointer(ctx context.Context, cfg Config) (*checkpointer, error) {
	db, err := openDatabase(cfg, writerPragmas(cfg))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &checkpointer{db: db, conn: conn}, nil
}

// start begins to move the log. fail receives an error.
func (m *checkpointer) start(fail func(error)) {
	done := make(chan struct{})
	m.done = done
	go func() { // until the log is moved; the writer waits for it before it ends
		defer close(done)
		if _, err := logOf(m.conn, moveLog); err != nil {
			fail(err)
		}
	}()
}

// state reports whether a move is running, and whether one has just ended.
func (m *checkpointer) state() (now, ended bool) {
	if m == nil || m.done == nil {
		return false, false
	}
	select {
	case <-m.done:
		m.done = nil
		return false, true
	default:
		return true, false
	}
}

// wait returns when no move is running.
func (m *checkpointer) wait() {
	if m != nil && m.done != nil {
		<-m.done
		m.done = nil
	}
}

// close closes the connection.
func (m *checkpointer) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.conn.close(), m.db.Close())
}

// logCheckInterval is after how many commits the writer reads the length of the log while no move
// is running. The reading costs a part of a small commit, and the log only grows by that many
// commits.
const logCheckInterval = 8

// maintainLog keeps the log short, after the callers have their answers. It moves a full log next
// to the writer, and lets the writer move what was committed meanwhile.
//
// SQLite would do this in a commit by itself, and would hide a failed write or sync. Here such a
// failure breaks the writer as any other does (R6). Without disk space, or while a reader uses old
// pages, the log grows until a later move succeeds.
func (w *writer) maintainLog() {
	if w.broken() != nil {
		return
	}
	now, ended := w.checkpointer.state()
	if !now && !ended && w.commits.Load()%logCheckInterval != 0 {
		return
	}
	held, err := logOf(w.conn, measureLog)
	switch {
	case err != nil:
		w.checkpointFailed(err)
		return
	case now && held < maxLogPages:
		return
	case !now && !ended && held < logPages:
		return
	case !now && !ended && w.checkpointer != nil && held < maxLogPages:
		w.checkpointer.start(w.checkpointFailed)
		return
	}
	w.checkpointer.wait()
	w.checkpoint()
}

// checkpoint moves the log into the database.
func (w *writer) checkpoint() {
	if w.broken() != nil {
		return
	}
	if _, err := logOf(w.conn, moveLog); err != nil {
		w.checkpointFailed(err)
	}
}

// truncateLog moves the log into the database and truncates its file. A restarted log keeps the
// length of its file, which may be most of a small disk. While a reader uses old pages the file is
// left as it is; cut does not wait for the reader.
func (w *writer) truncateLog() {
	found, err := os.Stat(w.log)
	if err != nil || found.Size() < minTruncateBytes || w.broken() != nil {
		return
	}
	w.checkpointer.wait()
	err = w.exec(`PRAGMA busy_timeout(0)`)
	if err == nil {
		_, err = logOf(w.conn, truncateLog)
	}
	if err = errors.Join(err, w.exec(`PRAGMA busy_timeout(5000)`)); err != nil {
		w.checkpointFailed(err)
	}
}

// checkpointFailed handles an error of a move. A lack of space and a lock held by a reader pass;
// any other error breaks the writer, so that every later transaction receives it.
func (w *writer) checkpointFailed(err error) {
	if !isFull(err) && !isBusy(err) {
		_ = w.breakDown(err)
	}
}

// logOf runs a statement about the log and returns how many of its pages the database still lacks.
func logOf(conn *connection, query string) (int64, error) {
	rows, err := conn.QueryContext(context.Background(), query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var busy, all, moved int64
	for rows.Next() {
		if err := rows.Scan(&busy, &all, &moved); err != nil {
			return 0, err
		}
	}
	return all - moved, rows.Err()
}
