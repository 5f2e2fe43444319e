package sessionsql

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

var _ tool.SQLDumper = port{}

// The statements of a dump. Tables come first, because triggers must not see the rows.
const (
	dumpObjects = `SELECT type, name, sql FROM sqlite_schema ` +
		`WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY type <> 'table', rowid`
	dumpColumns   = `SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid` // without generated ones
	countSequence = `SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'`
)

// maxDumps bounds the dumps of all sessions at the same time. Each holds a copy of its database in
// memory until w has taken all of it, which a slow client can delay.
const maxDumps = 4

// Dump writes a database as SQL text. It reads a copy in memory, so that no statement of the
// session waits for w. Limit: too many dumps are being written.
func (p port) Dump(ctx context.Context, name string, w io.Writer) error {
	name, err := nameOf(name)
	if err != nil {
		return err
	}
	select {
	case p.store.dumps <- struct{}{}:
		defer func() { <-p.store.dumps }()
	default:
		return limitError("%d other databases are being dumped, which is the limit. Try again when one of them has ended.", maxDumps)
	}
	content, err := p.copyOf(ctx, name)
	if err != nil {
		return err
	}
	d, err := p.store.openDatabase(ctx, name, "")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err = d.load(content); err == nil {
		err = d.dump(ctx, out)
	}
	if err = errors.Join(err, d.close()); err != nil {
		return fmt.Errorf("dump database %s of session %s: %w", name, p.session, err)
	}
	return out.Flush()
}

// copyOf returns the content of a database file as of one moment. NotFound: it does not exist.
func (p port) copyOf(ctx context.Context, name string) (content []byte, err error) {
	s := p.store
	err = s.withTurn(ctx, p.session, func(own *session) error {
		sizes, err := s.sizes(p.session)
		if err != nil {
			return err
		}
		if _, exists := sizes[name]; !exists {
			return fmt.Errorf("database %s of session %s: %w", name, p.session, perdure.NotFound)
		}
		content, err = s.serialize(ctx, p.session, own, name)
		if err != nil {
			return fmt.Errorf("%w: copy database %s of session %s: %w", perdure.Storage, name, p.session, err)
		}
		return nil
	})
	return content, err
}

// load replaces the content of a database in memory.
func (d *database) load(content []byte) error {
	if len(content) == 0 {
		return nil // it has no tables yet
	}
	d.policy.begin(internalMode)
	return d.conn.Raw(func(conn any) error {
		c, ok := conn.(interface{ Deserialize([]byte) error })
		if !ok {
			return errors.New("the driver cannot load a database")
		}
		return c.Deserialize(content)
	})
}

// dumpObject is a table, index, trigger or view.
type dumpObject struct{ kind, name, text string }

func (d *database) dump(ctx context.Context, out *bufio.Writer) error {
	d.policy.begin(readMode)
	objects, err := d.objects(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
	sequence := false
	for _, o := range objects {
		if o.kind != "table" && !sequence {
			sequence = true
			if err := d.dumpSequence(ctx, out); err != nil {
				return err
			}
		}
		fmt.Fprint(out, o.text, ";\n")
		if o.kind == "table" {
			if err := d.dumpTable(ctx, out, o.name); err != nil {
				return err
			}
		}
	}
	if !sequence {
		if err := d.dumpSequence(ctx, out); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(out, "COMMIT;\n")
	return err
}

func (d *database) objects(ctx context.Context) (found []dumpObject, err error) {
	rows, err := d.conn.QueryContext(ctx, dumpObjects)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeRows(rows, err) }()
	for rows.Next() {
		var o dumpObject
		if err := rows.Scan(&o.kind, &o.name, &o.text); err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	return found, rows.Err()
}

// dumpSequence writes the last values of AUTOINCREMENT columns, if there are any.
func (d *database) dumpSequence(ctx context.Context, out *bufio.Writer) error {
	var n int
	if err := d.conn.QueryRowContext(ctx, countSequence).Scan(&n); err != nil || n == 0 {
		return err
	}
	fmt.Fprint(out, "DELETE FROM sqlite_sequence;\n")
	return d.dumpTable(ctx, out, "sqlite_sequence")
}

// dumpTable writes the rows of a table.
func (d *database) dumpTable(ctx context.Context, out *bufio.Writer, table string) (err error) {
	columns, err := d.dumpedColumns(ctx, table)
	if err != nil || len(columns) == 0 {
		return err
	}
	values := make([]string, 0, 2*len(columns))
	for _, c := range columns { // the driver converts columns by their declared type, but not expressions
		values = append(values, "typeof("+c+")", "iif(typeof("+c+") = 'text', CAST("+c+" AS BLOB), "+c+")")
	}
	rows, err := d.conn.QueryContext(ctx, "SELECT "+strings.Join(values, ", ")+" FROM "+identifier(table))
	if err != nil {
		return err
	}
	defer func() { err = closeRows(rows, err) }()
	begin := "INSERT INTO " + identifier(table) + "(" + strings.Join(columns, ",") + ") VALUES("
	read, into := make([]any, len(values)), make([]any, len(values))
	for i := range read {
		into[i] = &read[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		fmt.Fprint(out, begin)
		for i := 0; i < len(read); i += 2 {
			if i > 0 {
				fmt.Fprint(out, ",")
			}
			fmt.Fprint(out, literal(read[i], read[i+1]))
		}
		if _, err := fmt.Fprint(out, ");\n"); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (d *database) dumpedColumns(ctx context.Context, table string) (names []string, err error) {
	rows, err := d.conn.QueryContext(ctx, dumpColumns, table)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeRows(rows, err) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, identifier(name))
	}
	return names, rows.Err()
}

// identifier returns a name as it is written in a statement.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal returns a value of a storage class as it is written in a statement.
func literal(class, value any) string {
	switch v := value.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return realLiteral(v)
	case []byte:
		if class != "text" {
			return "x'" + hex.EncodeToString(v) + "'"
		}
		if !utf8.Valid(v) || strings.ContainsRune(string(v), 0) { // a quoted text would end there
			return "CAST(x'" + hex.EncodeToString(v) + "' AS TEXT)"
		}
		return "'" + strings.ReplaceAll(string(v), "'", "''") + "'"
	case nil:
		if class == "text" { // an empty text is an empty blob, which the driver returns as nil
			return "''"
		}
		if class == "blob" {
			return "x''"
		}
	}
	return "NULL"
}

// realLiteral returns a number that SQLite reads as the same real number.
func realLiteral(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "9.0e+999"
	case math.IsInf(v, -1):
		return "-9.0e+999"
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
