package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
)

// connector opens connections of pgx for database/sql, which the store's SQL is written for. pgx has such a driver of its
// own, in a package that brings a second pool; this one has what the store and the migrations use, and nothing else.
type connector struct{ config *pgx.ConnConfig }

var _ driver.Connector = connector{}

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	pg, err := pgx.ConnectConfig(ctx, c.config.Copy())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return &link{pg: pg}, nil
}

// Driver is asked for by nobody.
func (c connector) Driver() driver.Driver { return unnamed{} }

// unnamed is a driver that opens nothing by name.
type unnamed struct{}

// Open refuses.
func (unnamed) Open(string) (driver.Conn, error) {
	return nil, errors.New("connections are opened by their connector")
}

// link is one connection. Texts are prepared once on it, by pgx. It is used by one goroutine at a time.
type link struct{ pg *pgx.Conn }

var (
	_ driver.ConnBeginTx       = (*link)(nil)
	_ driver.NamedValueChecker = (*link)(nil)
	_ driver.ExecerContext     = (*link)(nil)
	_ driver.QueryerContext    = (*link)(nil)
	_ driver.SessionResetter   = (*link)(nil)
	_ driver.Validator         = (*link)(nil)
)

// Prepare refuses: pgx prepares by itself.
func (l *link) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are prepared by their text")
}

// Close ends the connection. One that does not answer is left after closeLimit.
func (l *link) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), closeLimit)
	defer stop()
	return l.pg.Close(ctx)
}

// Begin begins a transaction.
func (l *link) Begin() (driver.Tx, error) { return l.BeginTx(context.Background(), driver.TxOptions{}) }

// BeginTx begins a transaction of the migrations. Those of the store begin in one round trip, past database/sql.
func (l *link) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	tx, err := l.pg.Begin(ctx)
	if err != nil {
		return nil, l.fault(err)
	}
	return migration{tx: tx}, nil
}

// migration is a transaction of the migrations.
type migration struct{ tx pgx.Tx }

// Commit commits.
func (m migration) Commit() error { return m.tx.Commit(context.Background()) }

// Rollback rolls back.
func (m migration) Rollback() error { return m.tx.Rollback(context.Background()) }

// ExecContext runs a statement that returns no rows.
func (l *link) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values, err := plain(args)
	if err != nil {
		return nil, err
	}
	tag, err := l.pg.Exec(ctx, query, values...)
	if err != nil {
		return nil, l.fault(err)
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// QueryContext runs a statement that returns rows. Its errors come with the first row, which is read here.
func (l *link) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	values, err := plain(args)
	if err != nil {
		return nil, err
	}
	found, err := l.pg.Query(ctx, query, values...)
	if err != nil {
		return nil, l.fault(err)
	}
	r := &rows{link: l, pg: found, first: found.Next()}
	if err := found.Err(); err != nil {
		return nil, l.fault(err)
	}
	for _, field := range found.FieldDescriptions() {
		r.columns = append(r.columns, field.Name)
	}
	return r, nil
}

// ResetSession refuses a connection that may not be used again.
func (l *link) ResetSession(context.Context) error {
	if !l.IsValid() {
		return driver.ErrBadConn
	}
	return nil
}

// IsValid reports whether the connection is open, and in no transaction. One in which a transaction was left open is closed,
// so that its locks go.
func (l *link) IsValid() bool { return !l.pg.IsClosed() && l.pg.PgConn().TxStatus() == 'I' }

// fault marks the error with which a connection ended.
func (l *link) fault(err error) error {
	if err != nil && l.pg.IsClosed() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// CheckNamedValue lets lists of text through, which database/sql does not know.
func (l *link) CheckNamedValue(value *driver.NamedValue) error {
	if _, list := value.Value.([]string); list {
		return nil
	}
	return driver.ErrSkip
}

// plain takes the values out of arguments. Invalid: text that no database of ours holds. Whatever comes from outside is
// BYTEA, so this is an id that was not checked.
func plain(args []driver.NamedValue) ([]any, error) {
	values := make([]any, len(args))
	for i, a := range args {
		if text, ok := a.Value.(string); ok && !isText(text) {
			return nil, fmt.Errorf("%w: %q is no text: it has a NUL or is not UTF-8", perdure.Invalid, text)
		}
		values[i] = a.Value
	}
	return values, nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// rows are what a query found.
type rows struct {
	link    *link
	pg      pgx.Rows
	columns []string
	first   bool // the first row was read, and not handed out yet
}

// Columns names the columns.
func (r *rows) Columns() []string { return r.columns }

// Close lets go of the rows that were not read.
func (r *rows) Close() error {
	r.pg.Close()
	return r.link.fault(r.pg.Err())
}

// Next hands out a row. The store's columns are BIGINT, TEXT, BYTEA and BOOLEAN; what else the migrations read, too.
func (r *rows) Next(into []driver.Value) error {
	if !r.first && !r.pg.Next() {
		if err := r.pg.Err(); err != nil {
			return r.link.fault(err)
		}
		return io.EOF
	}
	r.first = false
	values, err := r.pg.Values()
	if err != nil {
		return err
	}
	for i, v := range values {
		switch n := v.(type) {
		case int32:
			into[i] = int64(n)
		case int16:
			into[i] = int64(n)
		default:
			into[i] = v
		}
	}
	return nil
}
