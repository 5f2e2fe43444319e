package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
)

// mainDatabase is the database of a query that does not name one.
const mainDatabase = "main"

// databasesOf returns the databases of a session; nil: it has no place for them. NotFound: no such
// session.
func (e hostDatabases) databasesOf(ctx context.Context, id perdure.SessionID) (tool.SQL, error) {
	if err := e.checkFiles(ctx, id); err != nil {
		return nil, err
	}
	return e.portsOf(id).SQL, nil
}

// database returns the databases of a session in which a name exists.
func (e hostDatabases) database(ctx context.Context, id perdure.SessionID, name string) (tool.SQL, error) {
	all, err := e.databasesOf(ctx, id)
	if err != nil {
		return nil, err
	}
	var known []tool.SQLDatabase
	if all != nil {
		if known, err = all.Databases(ctx); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(known, func(d tool.SQLDatabase) bool { return d.Name == name }) {
		return nil, fmt.Errorf("database %.80q of %s: %w", name, id, perdure.NotFound)
	}
	return all, nil
}

// List lists the databases of a session with their tables.
func (e hostDatabases) List(ctx context.Context, id perdure.SessionID) (found []engine.Database, err error) {
	all, err := e.databasesOf(ctx, id)
	if err != nil || all == nil {
		return nil, err
	}
	known, err := all.Databases(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range known {
		tables, err := all.Schema(ctx, d.Name)
		if err != nil {
			return nil, fmt.Errorf("tables of database %s of %s: %w", d.Name, id, err)
		}
		shown := engine.Database{Name: d.Name, SizeBytes: d.SizeBytes, Tables: []engine.DatabaseTable{}}
		for _, t := range tables {
			table := engine.DatabaseTable{Name: t.Name, Kind: t.Kind, Columns: []engine.DatabaseColumn{}}
			for _, c := range t.Columns {
				table.Columns = append(table.Columns, engine.DatabaseColumn(c))
			}
			shown.Tables = append(shown.Tables, table)
		}
		found = append(found, shown)
	}
	return found, nil
}

// Query runs one statement that only reads.
func (e hostDatabases) Query(
	ctx context.Context, id perdure.SessionID, q engine.DatabaseQuery,
) (rows engine.DatabaseRows, err error) {
	name := cmp.Or(q.Database, mainDatabase)
	all, err := e.database(ctx, id, name)
	if err != nil {
		return rows, err
	}
	args, err := argumentsOf(q.Args)
	if err != nil {
		return rows, err
	}
	found, err := all.Query(ctx, tool.SQLStatement{Database: name, Text: q.SQL, Args: args})
	if err != nil {
		return rows, err
	}
	rows = engine.DatabaseRows{Columns: found.Columns, Rows: [][]json.RawMessage{}, Note: found.Note}
	for _, row := range found.Rows {
		shown := make([]json.RawMessage, len(row))
		for i, value := range row {
			if shown[i], err = encodeValue(value); err != nil {
				return rows, fmt.Errorf("query database %s of %s: %w", name, id, err)
			}
		}
		rows.Rows = append(rows.Rows, shown)
	}
	return rows, nil
}

// encodeValue encodes a value as JSON without HTML escapes.
func encodeValue(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

// argumentsOf decodes the arguments of a statement. Whole numbers keep all their digits.
func argumentsOf(given []json.RawMessage) ([]any, error) {
	args := make([]any, len(given))
	for i, text := range given {
		var n int64
		if perdure.DecodeJSON(text, &n) == nil && !bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
			args[i] = n
			continue
		}
		if err := perdure.DecodeJSON(text, &args[i]); err != nil {
			return nil, fmt.Errorf("%w argument %d: %w", perdure.Invalid, i+1, err)
		}
	}
	return args, nil
}

// Dump writes a database as SQL text.
func (e hostDatabases) Dump(ctx context.Context, id perdure.SessionID, database string, w io.Writer) error {
	name := cmp.Or(database, mainDatabase)
	all, err := e.database(ctx, id, name)
	if err != nil {
		return err
	}
	dumper, ok := all.(tool.SQLDumper)
	if !ok {
		return fmt.Errorf("dump database %s of %s: %w: this program has its own databases, which it cannot write as text",
			name, id, perdure.Unavailable)
	}
	return dumper.Dump(ctx, name, w)
}
