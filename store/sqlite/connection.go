package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/perdure/perdure/store/sqlstore"
)

// connection is a connection with its prepared statements, each prepared once. Query texts are
// constants, so their number is bounded. One goroutine at a time uses a connection.
type connection struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

var _ sqlstore.DB = (*connection)(nil)

func connect(ctx context.Context, db *sql.DB) (*connection, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{conn: conn, prepared: make(map[string]*sql.Stmt)}, nil
}

// ExecContext runs a statement that returns no rows.
func (c *connection) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// QueryContext runs a statement that returns rows.
func (c *connection) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

func (c *connection) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := c.prepared[query]; ok {
		return stmt, nil
	}
	stmt, err := c.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.prepared[query] = stmt
	return stmt, nil
}

func (c *connection) close() error {
	var errs []error
	for _, stmt := range c.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// discard closes the connection for good. An ordinary close would return it to the pool.
func (c *connection) discard() {
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn }) // this ends the connection
	_ = c.close()
}
