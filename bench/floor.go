package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/perdure/perdure/store/sqlite" // brings the driver, the very one that the store uses
)

// floorBatch limits a group commit of the floor, like that of the store.
const floorBatch = 256

// floor is a database without Perdure: connections, prepared statements, and the settings that the
// store uses for the same database. The figures of Perdure are relative to it.
type floor interface {
	// alone is for a single caller that commits by itself. It must not be used together with
	// callers.
	alone() committing
	// callers returns n connections for concurrent callers, one for each. Later calls may return
	// the same ones.
	callers(ctx context.Context, n int) ([]committing, error)
	// close closes the database.
	close() error
}

// committing runs a write in a transaction, and returns after its commit.
type committing func(write) error

// write is the work of one caller in a transaction.
type write func(*bareLine) error

// bareLine is a connection with its prepared statements. It is used by one goroutine at a time.
type bareLine struct {
	conn     *sql.Conn
	begin    string
	prepared map[string]*sql.Stmt // by their text
}

// openLine opens a connection, runs the statements before, and prepares the others.
func openLine(ctx context.Context, db *sql.DB, begin string, before ...string) (_ *bareLine, err error) {
	l := &bareLine{begin: begin, prepared: map[string]*sql.Stmt{}}
	if l.conn, err = db.Conn(ctx); err != nil {
		return nil, fmt.Errorf("open floor: %w", err)
	}
	for _, text := range before {
		if _, err := l.conn.ExecContext(ctx, text); err != nil {
			return nil, errors.Join(fmt.Errorf("open floor: %w", err), l.close())
		}
	}
	for _, text := range floorTexts(begin) {
		if l.prepared[text], err = l.conn.PrepareContext(ctx, text); err != nil {
			delete(l.prepared, text)
			return nil, errors.Join(fmt.Errorf("open floor: %w", err), l.close())
		}
	}
	return l, nil
}

func (l *bareLine) close() error {
	var errs []error
	for _, stmt := range l.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, l.conn.Close())...)
}

// exec runs a prepared statement. It takes no ctx, because the driver would start a goroutine per
// statement.
func (l *bareLine) exec(text string, args ...any) error {
	_, err := l.prepared[text].ExecContext(context.Background(), args...)
	return err
}

// commit runs writes in one transaction, in the caller's goroutine.
func (l *bareLine) commit(writes ...write) error {
	if err := l.exec(l.begin); err != nil {
		return err
	}
	for _, w := range writes {
		if err := w(l); err != nil {
			return errors.Join(err, l.exec(floorRollback))
		}
	}
	return l.exec(floorCommit)
}

// floorSQLite is the floor on SQLite: one writing connection, and a committer that lets callers
// share commits.
type floorSQLite struct {
	db    *sql.DB
	line  *bareLine
	queue chan commitRequest // unbuffered: the callers wait
	group sync.WaitGroup     // the committer
}

// commitRequest is a write for the committer.
type commitRequest struct {
	write  write
	answer chan error // capacity 1, so that the committer never waits
}

// openFloor creates a database in an empty folder and starts its committer.
func openFloor(ctx context.Context, dir string) (*floorSQLite, error) {
	query := url.Values{"_txlock": {"immediate"}, "_dqs": {"0"}, "_pragma": {
		"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)", "fullfsync(1)", "journal_size_limit(67108864)",
	}}
	dsn := url.URL{Scheme: "file", Path: filepath.Join(dir, "floor.db"), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open floor: %w", err)
	}
	f := &floorSQLite{db: db, queue: make(chan commitRequest)}
	if f.line, err = openLine(ctx, db, floorBegin, floorUseLog, floorSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	f.group.Go(f.serve)
	return f, nil
}

func (f *floorSQLite) close() error {
	close(f.queue)
	f.group.Wait()
	return errors.Join(f.line.close(), f.db.Close())
}

// alone commits without the committer.
func (f *floorSQLite) alone() committing { return func(w write) error { return f.line.commit(w) } }

// callers pass their writes to the committer and wait for its commit.
func (f *floorSQLite) callers(_ context.Context, n int) ([]committing, error) {
	places := make([]committing, n)
	for i := range places {
		answer := make(chan error, 1)
		places[i] = func(w write) error {
			f.queue <- commitRequest{write: w, answer: answer}
			return <-answer
		}
	}
	return places, nil
}

// serve is the committer: it puts all waiting writes into one transaction, and answers after the
// commit. Callers that were just answered get a chance to return first, as in store/sqlite.
func (f *floorSQLite) serve() {
	for first := range f.queue {
		runtime.Gosched()
		batch := f.gather(first)
		writes := make([]write, len(batch))
		for i, h := range batch {
			writes[i] = h.write
		}
		err := f.line.commit(writes...)
		for _, h := range batch {
			h.answer <- err
		}
	}
}

func (f *floorSQLite) gather(first commitRequest) []commitRequest {
	batch := []commitRequest{first}
	for len(batch) < floorBatch {
		select {
		case h, ok := <-f.queue:
			if !ok {
				return batch
			}
			batch = append(batch, h)
		default:
			return batch
		}
	}
	return batch
}

// bareCaller is one caller of the floor: a separate session with sequential calls.
type bareCaller struct {
	session string
	seq     int64
	calls   int64
}

// bareCaller returns a caller with rows of its own.
func (l *runner) bareCaller() *bareCaller {
	return &bareCaller{session: "session_" + strconv.FormatInt(l.bare.Add(1), 10)}
}

// call makes a durable call of two transactions: the claim with its event, then the settlement with
// its event. apply commits one of them.
func (c *bareCaller) call(apply committing) error {
	c.calls++
	id := "call_" + strconv.FormatInt(c.calls, 10)
	token := c.session + id
	if err := apply(c.claim(id, token)); err != nil {
		return fmt.Errorf("bare claim: %w", err)
	}
	if err := apply(c.settle(id, token)); err != nil {
		return fmt.Errorf("bare settle: %w", err)
	}
	return nil
}

func (c *bareCaller) claim(id, token string) write {
	c.seq++
	seq, now, body := c.seq, time.Now().UnixMicro(), bareBody("tool.started", id)
	return func(l *bareLine) error {
		if err := l.exec(floorClaim, c.session, id, token, []byte(`{"n":1}`), now); err != nil {
			return err
		}
		return l.exec(floorEvent, c.session, seq, now, body)
	}
}

func (c *bareCaller) settle(id, token string) write {
	c.seq++
	seq, now, body := c.seq, time.Now().UnixMicro(), bareBody("tool.completed", id)
	return func(l *bareLine) error {
		if err := l.exec(floorSettle, c.session, id, token, []byte(`{"result":{"n":1}}`), now); err != nil {
			return err
		}
		return l.exec(floorEvent, c.session, seq, now, body)
	}
}

// bareBody returns an event of about the size of a Perdure event.
func bareBody(kind, id string) []byte {
	var b strings.Builder
	b.WriteString(`{"v":1,"type":"` + kind + `","data":{"call_id":"` + id + `","name":"noop","padding":"`)
	b.WriteString(strings.Repeat("x", 300))
	b.WriteString(`"}}`)
	return []byte(b.String())
}
