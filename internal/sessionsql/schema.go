package sessionsql

import (
	"context"

	"github.com/perdure/perdure/tool"
)

// Statements that describe a database.
const (
	listTables = `SELECT name, type FROM sqlite_schema ` +
		`WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`
	listColumns = `SELECT name, type, "notnull", pk > 0 FROM pragma_table_xinfo(?) ORDER BY cid`
)

// Schema lists the tables and views by name. A view that no longer compiles has no columns.
func (p port) Schema(ctx context.Context, name string) (tables []tool.SQLTable, err error) {
	name, err = nameOf(name)
	if err != nil {
		return nil, err
	}
	err = p.read(ctx, name, false, func(run context.Context, d *database) error {
		d.policy.begin(readMode)
		tables, err = d.tables(run)
		for i := 0; err == nil && i < len(tables); i++ {
			columns, failed := d.columnsOf(run, tables[i].Name)
			if run.Err() != nil {
				return failed
			}
			tables[i].Columns = columns
		}
		return err
	})
	return tables, err
}

func (d *database) tables(ctx context.Context) (found []tool.SQLTable, err error) {
	rows, err := d.conn.QueryContext(ctx, listTables)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeRows(rows, err) }()
	for rows.Next() {
		t := tool.SQLTable{Columns: []tool.SQLColumn{}}
		if err := rows.Scan(&t.Name, &t.Kind); err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, rows.Err()
}

func (d *database) columnsOf(ctx context.Context, table string) (found []tool.SQLColumn, err error) {
	found = []tool.SQLColumn{}
	rows, err := d.conn.QueryContext(ctx, listColumns, table)
	if err != nil {
		return found, err
	}
	defer func() { err = closeRows(rows, err) }()
	for rows.Next() {
		var c tool.SQLColumn
		if err := rows.Scan(&c.Name, &c.Type, &c.NotNull, &c.PrimaryKey); err != nil {
			return found, err
		}
		found = append(found, c)
	}
	return found, rows.Err()
}
