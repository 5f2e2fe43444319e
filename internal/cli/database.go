package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sqlCommand struct {
	Ls    sqlLs    `cmd:"" aliases:"list" help:"List the databases of a session, with their tables."`
	Query sqlQuery `cmd:"" help:"Run one statement that only reads."`
	Dump  sqlDump  `cmd:"" help:"Write a database as SQL text that creates it again."`
}

type sqlLs struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	outputFlags
}

// Run lists databases.
func (c *sqlLs) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Databases().List(ctx, s.ID)
		if err != nil {
			return err
		}
		return outputList[engine.Database]{
			noun: "databases", head: []string{"DATABASE", "SIZE", "TABLES"},
			name: func(d engine.Database) string { return d.Name },
			row: func(d engine.Database) []cell {
				var tables []string
				for _, t := range d.Tables {
					var columns []string
					for _, column := range t.Columns {
						columns = append(columns, column.Name)
					}
					tables = append(tables, t.Name+"("+strings.Join(columns, ", ")+")")
				}
				return []cell{{d.Name, bold}, {text: fmt.Sprint(d.SizeBytes)}, {text: strings.Join(tables, " ")}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type sqlQuery struct {
	Session string   `arg:"" help:"Session: id, unique id prefix, title, or last."`
	SQL     string   `arg:"" name:"sql" help:"One statement that only reads; @FILE reads it from a file, - from stdin."`
	Name    string   `help:"Database of the session." placeholder:"NAME" default:"main"`
	Arg     []string `help:"Value of the next parameter of the statement: JSON, or else a text. Repeatable." placeholder:"VALUE" sep:"none"`
	outputFlags
}

// Run runs a query.
func (c *sqlQuery) Run(ctx context.Context, a *app) error {
	text, err := a.argument(c.SQL)
	if err != nil {
		return err
	}
	q := engine.DatabaseQuery{Database: c.Name, SQL: text}
	for _, word := range c.Arg {
		q.Args = append(q.Args, jsonArgument(word))
	}
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		rows, err := eng.Databases().Query(ctx, s.ID, q)
		if err != nil {
			return databaseError(a, s, c.Name, err)
		}
		return c.show(ctx, a, outputObject{c.Name, rows, func() {
			shown := make([][]cell, len(rows.Rows))
			for i, row := range rows.Rows {
				for _, value := range row {
					shown[i] = append(shown[i], cell{text: plainValue(value)})
				}
			}
			a.table(rows.Columns, shown)
			if rows.Note != "" {
				a.message("%s", rows.Note)
			}
		}})
	})
}

// jsonArgument returns an argument as JSON: as typed if it is a JSON value, otherwise as a text.
func jsonArgument(word string) json.RawMessage {
	var value any
	if perdure.DecodeJSON([]byte(word), &value) == nil {
		return json.RawMessage(word)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(word) // a text always encodes
	return bytes.TrimSpace(text.Bytes())
}

// plainValue returns a value for a table: a text without its quotes, anything else as JSON.
func plainValue(value json.RawMessage) string {
	var text string
	if perdure.DecodeJSON(value, &text) == nil && string(value) != "null" {
		return text
	}
	return string(value)
}

// databaseError says how to list databases when one does not exist.
func databaseError(a *app, s engine.Session, name string, err error) error {
	if !errors.Is(err, perdure.NotFound) {
		return err
	}
	return &userError{err: err, message: fmt.Sprintf("%s has no database %q", s.ID, name),
		hint: program + " sql ls " + a.storeFlags() + string(s.ID) + "  lists them"}
}

type sqlDump struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string `arg:"" optional:"" help:"Database of the session." default:"main"`
	To      string `help:"Write to this new file, readable by you only. Default: stdout." placeholder:"FILE" type:"path"`
}

// Run writes a dump. An incomplete file is removed.
func (c *sqlDump) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		if c.To == "" {
			var text bytes.Buffer
			if err := eng.Databases().Dump(ctx, s.ID, c.Name, &text); err != nil {
				return databaseError(a, s, c.Name, err)
			}
			if a.Terminal.Stdout && !a.flags.Raw {
				_, err := fmt.Fprint(a.out, printable(text.String()))
				return err
			}
			_, err := text.WriteTo(a.out)
			return err
		}
		file, err := createLocal(a, c.To, false, "choose another file with --to")
		if err != nil {
			return err
		}
		err = eng.Databases().Dump(ctx, s.ID, c.Name, file)
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(databaseError(a, s, c.Name, err), os.Remove(c.To))
		}
		a.message("wrote database %s of %s to %s", c.Name, s.ID, a.oneLine(c.To, 200))
		return nil
	})
}
