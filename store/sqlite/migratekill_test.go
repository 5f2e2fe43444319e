package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	engine "modernc.org/sqlite"

	"github.com/perdure/perdure/store/sqlite"
)

// migrateAndDie is the role of a process that is killed before the nth statement.
func migrateAndDie(dir, nth string) error {
	n, err := strconv.ParseInt(nth, 10, 64)
	if err != nil {
		return err
	}
	var at atomic.Int64
	db := watched(dir, func() {
		if at.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it takes effect at once, but not before this returns
		}
	})
	return sqlite.PrepareWith(context.Background(), db, dir)
}

// goldens are the databases that earlier versions wrote.
func goldens(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/schema-*.db.gz")
	if err != nil || len(found) == 0 {
		t.Fatalf("got databases %v, %v, want some", found, err)
	}
	return found
}

// cuts migrates a database and returns its directory as it was before each statement and commit,
// and at the end.
func cuts(t *testing.T, from string) (dirs []string) {
	t.Helper()
	dir := t.TempDir()
	if from != "" {
		unpack(t, from, filepath.Join(dir, "perdure.db"))
	}
	cut := func() {
		to := t.TempDir()
		for _, name := range []string{"perdure.db", "perdure.db-wal", "perdure.db-journal"} {
			if content, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				writeFile(t, filepath.Join(to, name), content)
			}
		}
		dirs = append(dirs, to)
	}
	db := watched(dir, cut)
	if err := sqlite.PrepareWith(context.Background(), db, dir); err != nil {
		t.Fatal(err)
	}
	cut()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dirs
}

// watched opens a database as the writer does, and calls before ahead of every statement and
// commit.
func watched(dir string, before func()) *sql.DB {
	db := sql.OpenDB(watchedConnector{dsn: sqlite.WriterDSN(dir), before: before})
	db.SetMaxOpenConns(1)
	return db
}

type watchedConnector struct {
	dsn    string
	before func()
}

func (c watchedConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := (&engine.Driver{}).Open(c.dsn)
	return watchedConn{conn, c.before}, err
}

func (c watchedConnector) Driver() driver.Driver { return &engine.Driver{} }

// watchedConn is a connection of the driver that announces its statements.
type watchedConn struct {
	driver.Conn
	before func()
}

var (
	_ driver.ExecerContext  = watchedConn{}
	_ driver.QueryerContext = watchedConn{}
	_ driver.ConnBeginTx    = watchedConn{}
)

func (c watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.before()
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.before()
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c watchedConn) Prepare(query string) (driver.Stmt, error) {
	return nil, fmt.Errorf("a statement would not be announced: %s", query)
}

func (c watchedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.before()
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	return watchedTx{tx, c.before}, err
}

type watchedTx struct {
	driver.Tx
	before func()
}

func (x watchedTx) Commit() error {
	x.before()
	return x.Tx.Commit()
}
