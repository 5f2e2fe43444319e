package sessionport

import (
	"context"
	"fmt"
	"io"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// bind binds a session to the home of its files (RC25). Conflict: it is bound to another one.
func bind(tx store.Tx, row store.Session, home perdure.HomeID) error {
	switch {
	case home == "" || row.Home == home:
		return nil
	case row.Home != "":
		return fmt.Errorf("%w: the files of %s are at home %s", perdure.Conflict, row.ID, row.Home)
	}
	return tx.Sessions().SetHome(row.ID, home)
}

// boundSQL binds a session to a home before its first database is created there. The database is no
// part of the commit, so a crash in between leaves a bound session without a database, never a
// database of a session that is bound to no home.
type boundSQL struct {
	tool.SQL
	binding
	home perdure.HomeID
}

var _ tool.SQLDumper = boundSQL{}

// Dump implements tool.SQLDumper.
func (p boundSQL) Dump(ctx context.Context, database string, w io.Writer) error {
	dumper, ok := p.SQL.(tool.SQLDumper)
	if !ok {
		return fmt.Errorf("dump database %s: %w: the databases cannot be written as text", database, perdure.Unavailable)
	}
	return dumper.Dump(ctx, database, w)
}

// Execute implements tool.SQL.
func (p boundSQL) Execute(ctx context.Context, in tool.SQLStatement) (tool.SQLResult, error) {
	row, err := store.Read(ctx, p.store, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(p.session) })
	if err == nil && row.Home != p.home {
		err = p.write(ctx, func(tx store.Tx, row store.Session) error { return bind(tx, row, p.home) })
	}
	if err != nil {
		return tool.SQLResult{}, fmt.Errorf("bind the session to the home of its databases: %w", err)
	}
	return p.SQL.Execute(ctx, in)
}
