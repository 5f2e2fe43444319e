package sessionsql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	sdk "modernc.org/sqlite"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// port implements tool.SQL for one session.
type port struct {
	store   *Store
	session perdure.SessionID
}

var _ tool.SQL = port{}

// request is a checked statement with its database and arguments.
type request struct {
	statement
	database string
	args     []any
}

func check(in tool.SQLStatement) (r request, err error) {
	if r.database, err = nameOf(in.Database); err != nil {
		return r, err
	}
	if r.args, err = argsOf(in.Args); err != nil {
		return r, err
	}
	r.statement, err = parseSingle(in.Text)
	return r, err
}

func nameOf(name string) (string, error) {
	if name == "" {
		return mainName, nil
	}
	if !databaseNamePattern().MatchString(name) {
		return "", invalidError("A database name must have 1 to 64 letters, digits, - or _, but it is %.80q.", name)
	}
	return name, nil
}

// argsOf converts arguments to values for the driver. A number without a fraction becomes an
// integer, as in SQL.
func argsOf(in []any) ([]any, error) {
	args := make([]any, len(in))
	for i, v := range in {
		args[i] = v
		switch v := v.(type) {
		case nil, bool, string, int64:
		case float64:
			if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
				args[i] = int64(v)
			}
		case json.Number:
			if n, err := v.Int64(); err == nil {
				args[i] = n
			} else if f, err := v.Float64(); err == nil {
				args[i] = f
			} else {
				return nil, invalidError("Argument %d is not a number that the database can store.", i+1)
			}
		default:
			return nil, invalidError("Argument %d is a list or an object. Arguments must be strings, numbers, true, "+
				"false or null.", i+1)
		}
	}
	return args, nil
}

// Query runs one statement that only reads.
func (p port) Query(ctx context.Context, in tool.SQLStatement) (found tool.SQLRows, err error) {
	r, err := check(in)
	if err != nil {
		return tool.SQLRows{}, err
	}
	err = p.read(ctx, r.database, true, func(run context.Context, d *database) error {
		found, err = p.store.query(run, d, r)
		return err
	})
	if err != nil {
		return tool.SQLRows{}, err
	}
	return found, nil
}

// read runs fn with a database, under the limits of a statement. If the database does not exist, fn
// gets an empty one in memory where empty is true; otherwise fn is not called.
func (p port) read(ctx context.Context, name string, empty bool, fn func(context.Context, *database) error) error {
	s := p.store
	return s.withTurn(ctx, p.session, func(own *session) error {
		sizes, err := s.sizes(p.session)
		if err != nil {
			return err
		}
		_, exists := sizes[name]
		if !exists && !empty {
			return nil
		}
		d, release, err := s.useOrEmpty(ctx, p.session, own, name, exists)
		if err != nil {
			return err
		}
		defer release()
		run, end := s.startLimits(ctx)
		defer end()
		return s.statementError(ctx, run, d, fn(run, d))
	})
}

// useOrEmpty returns the database as use does, or an empty one in memory if it does not exist.
func (s *Store) useOrEmpty(
	ctx context.Context, id perdure.SessionID, own *session, name string, exists bool,
) (*database, func(), error) {
	if exists {
		return s.use(ctx, id, own, name)
	}
	d, err := s.openDatabase(ctx, name, "")
	if err != nil {
		return nil, nil, err
	}
	return d, func() { _ = d.close() }, nil // there is nothing in it
}

func (s *Store) query(ctx context.Context, d *database, r request) (tool.SQLRows, error) {
	d.policy.begin(readMode)
	columns, err := d.columns(r.text)
	switch {
	case err != nil:
		return tool.SQLRows{}, err
	case len(columns) == 0:
		return tool.SQLRows{}, invalidError("This statement returns no rows. Only statements that read are allowed here; " +
			"the tool for others is sql_execute.")
	}
	found := tool.SQLRows{Columns: columns}
	if r.begins("PRAGMA", "EXPLAIN") {
		found.Rows, found.Note, err = d.listRows(ctx, r)
		return found, err
	}
	found.Rows, found.Note, err = s.collect(ctx, d, r, len(columns))
	return found, err
}

// columns compiles a statement and returns the names of its result columns.
func (d *database) columns(text string) ([]string, error) {
	names := []string{}
	err := d.conn.Raw(func(conn any) error {
		info, ok := conn.(interface {
			ColumnInfo(query string) ([]sdk.ColumnInfo, error)
		})
		if !ok {
			return errors.New("the driver does not report columns")
		}
		columns, err := info.ColumnInfo(text)
		for _, c := range columns {
			names = append(names, c.Name)
		}
		return err
	})
	return names, err
}

// collect embeds a query in a statement that passes its rows to rowFunction, and returns the rows.
func (s *Store) collect(ctx context.Context, d *database, r request, columns int) ([][]any, string, error) {
	own, number, end := s.rows.begin()
	defer end()
	names, values := make([]string, columns), make([]string, columns)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i+1)
		values[i] = fmt.Sprintf("typeof(%[1]s) = 'text', iif(typeof(%[1]s) = 'text', CAST(%[1]s AS BLOB), %[1]s)",
			names[i])
	}
	text := fmt.Sprintf("WITH perdure_query(%s) AS (%s\n) SELECT count(%s(%d, %s)) FROM perdure_query",
		strings.Join(names, ", "), r.text, rowFunction, number, strings.Join(values, ", "))
	d.policy.begin(collectMode)
	rows, err := d.conn.QueryContext(ctx, text, r.args...)
	if rows != nil {
		err = closeRows(rows, err)
	}
	if own.note != "" {
		err = nil // the collector ended the query
	}
	return own.rows, own.note, err
}

// listRows returns the rows of a statement that cannot be embedded in another one. Such statements
// return few rows, and quickly.
func (d *database) listRows(ctx context.Context, r request) (found [][]any, note string, err error) {
	own := &collector{rows: [][]any{}}
	rows, err := d.conn.QueryContext(ctx, r.text, r.args...)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = closeRows(rows, err) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, "", err
	}
	for rows.Next() {
		values := make([]any, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, "", err
		}
		if err := own.add(values); err != nil {
			break
		}
	}
	return own.rows, own.note, rows.Err()
}

// closeRows closes rows and returns the first error.
func closeRows(rows *sql.Rows, err error) error {
	if own := rows.Close(); err == nil {
		err = own
	}
	return err
}

// Databases lists the session's databases by name.
func (p port) Databases(ctx context.Context) (found []tool.SQLDatabase, err error) {
	err = p.store.withTurn(ctx, p.session, func(*session) error {
		sizes, err := p.store.sizes(p.session)
		for name, size := range sizes {
			found = append(found, tool.SQLDatabase{Name: name, SizeBytes: size})
		}
		return err
	})
	slices.SortFunc(found, func(a, b tool.SQLDatabase) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}
