package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
)

// The log: how many of its pages the database does not have yet, and moving them there without waiting for readers or a writer.
const (
	askLog  = `PRAGMA wal_checkpoint(NOOP)`
	moveLog = `PRAGMA wal_checkpoint(PASSIVE)`
	cutLog  = `PRAGMA wal_checkpoint(TRUNCATE)`
)

// scarceLog is from how many bytes on the log's file is worth cutting when space is missed.
const scarceLog = 1 << 20

// How many pages of 4 KiB the log may hold before they are moved, and before its writer waits for that.
const (
	fullLog    = 4000
	longestLog = fullLog * 3 / 2
)

// mover moves the log into the database beside the writer, over a connection of its own: a full log takes as long as many
// commits. What was committed meanwhile is left for the writer, since a log only begins anew when the database has all of it.
// Only the writer's goroutine calls its methods. A nil mover never moves anything.
type mover struct {
	db   *sql.DB
	conn *connection   // only touched by the goroutine that moves, while there is one
	done chan struct{} // closed when that has ended; nil: there is none
}

// openMover makes a mover for the database that the writer has opened.
func openMover(ctx context.Context, cfg Config) (*mover, error) {
	db, err := openDatabase(cfg, writerPragmas(cfg))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &mover{db: db, conn: conn}, nil
}

// start begins to move the log, and tells fail of an error.
func (m *mover) start(fail func(error)) {
	done := make(chan struct{})
	m.done = done
	go func() { // until the log is moved; the writer waits for it before it ends
		defer close(done)
		if _, err := logOf(m.conn, moveLog); err != nil {
			fail(err)
		}
	}()
}

// moves reports whether the log is being moved, and whether that has just ended.
func (m *mover) moves() (now, ended bool) {
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

// wait returns when the log is not being moved.
func (m *mover) wait() {
	if m != nil && m.done != nil {
		<-m.done
		m.done = nil
	}
}

// close gives the connection back.
func (m *mover) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.conn.close(), m.db.Close())
}

// untended is after how many commits the writer asks how long the log is while nobody moves it: asking costs a part of a small commit, and
// the log grows by no more than these.
const untended = 8

// tend looks after the log when the callers have their answers: a full one is moved beside the writer, then what came meanwhile
// by the writer itself. SQLite would do so in a commit, and keep it to itself when a write or sync of it fails; here that breaks the
// writer as any other does (R6). Without space, or beside a reader of old pages, the log goes on growing until there is.
func (w *writer) tend() {
	if w.broken() != nil {
		return
	}
	now, ended := w.mover.moves()
	if !now && !ended && w.commits.Load()%untended != 0 {
		return
	}
	held, err := logOf(w.conn, askLog)
	switch {
	case err != nil:
		w.unmoved(err)
		return
	case now && held < longestLog:
		return
	case !now && !ended && held < fullLog:
		return
	case !now && !ended && w.mover != nil && held < longestLog:
		w.mover.start(w.unmoved)
		return
	}
	w.mover.wait()
	w.checkpoint()
}

// checkpoint moves the log into the database.
func (w *writer) checkpoint() {
	if w.broken() != nil {
		return
	}
	if _, err := logOf(w.conn, moveLog); err != nil {
		w.unmoved(err)
	}
}

// cut moves the log into the database and gives its file's space back: a log that begins anew keeps the length that it had, and on a
// small disk that may be most of it. Beside a reader of old pages it stays as it is, without waiting for that.
func (w *writer) cut() {
	found, err := os.Stat(w.log)
	if err != nil || found.Size() < scarceLog || w.broken() != nil {
		return
	}
	w.mover.wait()
	err = w.exec(`PRAGMA busy_timeout(0)`)
	if err == nil {
		_, err = logOf(w.conn, cutLog)
	}
	if err = errors.Join(err, w.exec(`PRAGMA busy_timeout(5000)`)); err != nil {
		w.unmoved(err)
	}
}

// unmoved is told why the log is not in the database: who comes next is told, unless it passes.
func (w *writer) unmoved(err error) {
	if !isFull(err) && !isBusy(err) {
		_ = w.breakDown(err)
	}
}

// logOf runs a statement about the log and returns how many of its pages the database does not have then.
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
