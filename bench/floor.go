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
	"sync/atomic"
	"time"

	_ "github.com/perdure/perdure/store/sqlite" // brings the driver, the very one that the store uses
)

// floorBatch bounds a group commit of the floor, as the store's own is bounded.
const floorBatch = 256

// floor is SQLite with nothing of ours above it: one connection that writes, prepared statements, the pragmas of
// store/sqlite. It is what the figures of Perdure are divided by.
type floor struct {
	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt // by their text
	queue    chan handed          // no capacity: what waits is bounded by the callers
	group    sync.WaitGroup       // the committer
	next     atomic.Int64         // numbers the callers, whose rows must differ
}

// write is what one caller does in a transaction.
type write func(*floor) error

// handed is a write on its way to the committer.
type handed struct {
	write  write
	answer chan error // capacity 1, so that the committer never waits
}

// openFloor makes a database in an empty folder and starts its committer.
func openFloor(ctx context.Context, dir string) (*floor, error) {
	query := url.Values{"_txlock": {"immediate"}, "_dqs": {"0"}, "_pragma": {
		"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)", "fullfsync(1)", "journal_size_limit(67108864)",
	}}
	dsn := url.URL{Scheme: "file", Path: filepath.Join(dir, "floor.db"), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open floor: %w", err)
	}
	f := &floor{db: db, prepared: map[string]*sql.Stmt{}, queue: make(chan handed)}
	if err := f.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open floor: %w", err), db.Close())
	}
	f.group.Go(f.serve)
	return f, nil
}

func (f *floor) prepare(ctx context.Context) (err error) {
	if f.conn, err = f.db.Conn(ctx); err != nil {
		return err
	}
	for _, text := range []string{floorUseLog, floorSchema} {
		if _, err := f.conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	for _, text := range floorTexts() {
		if f.prepared[text], err = f.conn.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// close ends the committer and the database.
func (f *floor) close() error {
	close(f.queue)
	f.group.Wait()
	var errs []error
	for _, stmt := range f.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, f.conn.Close(), f.db.Close())...)
}

// exec runs a prepared statement. It takes no ctx: with one the driver starts a goroutine for each statement.
func (f *floor) exec(text string, args ...any) error {
	_, err := f.prepared[text].ExecContext(context.Background(), args...)
	return err
}

// commit runs writes in one transaction, in the caller's goroutine. It must not run beside the committer.
func (f *floor) commit(writes ...write) error {
	if err := f.exec(floorBegin); err != nil {
		return err
	}
	for _, w := range writes {
		if err := w(f); err != nil {
			return errors.Join(err, f.exec(floorRollback))
		}
	}
	return f.exec(floorCommit)
}

// serve is the committer: it takes whatever waits into one transaction, and answers after the commit. Callers
// that were just answered get a turn to come back first, as in store/sqlite.
func (f *floor) serve() {
	for first := range f.queue {
		runtime.Gosched()
		batch := f.gather(first)
		writes := make([]write, len(batch))
		for i, h := range batch {
			writes[i] = h.write
		}
		err := f.commit(writes...)
		for _, h := range batch {
			h.answer <- err
		}
	}
}

func (f *floor) gather(first handed) []handed {
	batch := []handed{first}
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

// bareCaller is one caller of the floor: a session of its own, its calls one after another.
type bareCaller struct {
	session string
	answer  chan error
	seq     int64
	calls   int64
}

func newBareCaller(name string) *bareCaller {
	return &bareCaller{session: "session_" + name, answer: make(chan error, 1)}
}

// through hands a write to the committer and waits for its commit.
func (c *bareCaller) through(f *floor, w write) error {
	f.queue <- handed{write: w, answer: c.answer}
	return <-c.answer
}

// call makes a durable call of two transactions: the claim with its event, then the settlement with its event.
// apply commits one of them.
func (c *bareCaller) call(apply func(write) error) error {
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
	return func(f *floor) error {
		if err := f.exec(floorClaim, c.session, id, token, []byte(`{"n":1}`), now); err != nil {
			return err
		}
		return f.exec(floorEvent, c.session, seq, now, body)
	}
}

func (c *bareCaller) settle(id, token string) write {
	c.seq++
	seq, now, body := c.seq, time.Now().UnixMicro(), bareBody("tool.completed", id)
	return func(f *floor) error {
		if err := f.exec(floorSettle, c.session, id, token, []byte(`{"result":{"n":1}}`), now); err != nil {
			return err
		}
		return f.exec(floorEvent, c.session, seq, now, body)
	}
}

// bareBody is an event of about the size that an event of Perdure has.
func bareBody(kind, id string) []byte {
	var b strings.Builder
	b.WriteString(`{"v":1,"type":"` + kind + `","data":{"call_id":"` + id + `","name":"noop","padding":"`)
	b.WriteString(strings.Repeat("x", 300))
	b.WriteString(`"}}`)
	return []byte(b.String())
}
