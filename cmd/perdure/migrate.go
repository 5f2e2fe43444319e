package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/sqlstore"
)

// schemaOf looks which schema a store has, beside whoever holds it.
func schemaOf(ctx context.Context, p admin.Place) (s admin.Schema, err error) {
	if p.Database != "" {
		s.Stored, s.Known, err = postgres.Versions(ctx, postgres.Config{URL: p.Database})
	} else {
		s.Stored, s.Known, err = sqlite.Versions(ctx, filepath.Join(p.Dir, sqlite.DatabaseName))
	}
	if err == nil {
		s.Steps, err = sqlstore.Steps(s.Stored)
	}
	return s, err
}

// migrate brings a store up to date, as whatever opens it for writing does. before is called with the lock of the data directory
// held; a database that is shared has none.
func migrate(ctx context.Context, p admin.Place, before func(context.Context) error) error {
	if p.Database != "" {
		if err := before(ctx); err != nil {
			return err
		}
		st, err := postgres.Open(ctx, postgres.Config{URL: p.Database})
		if err != nil {
			return err
		}
		return st.Close()
	}
	asked := false
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: p.Dir, Program: "perdure", BeforeMigration: func(ctx context.Context, _, _ int64) error {
		asked = true
		return before(ctx)
	}})
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	if !asked {
		return fmt.Errorf("%w: somebody else brought it up to date meanwhile, without this backup", perdure.Conflict)
	}
	return nil
}
