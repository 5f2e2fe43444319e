package app

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

// schemaOf returns the schema version of a store, also while another process holds it.
func schemaOf(ctx context.Context, p admin.StoreLocation) (s admin.Schema, err error) {
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

// migrate migrates a store by opening it for writing. before is called with the lock of the data
// directory held; a shared database has no lock.
func migrate(ctx context.Context, p admin.StoreLocation, before func(context.Context) error) error {
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
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: p.Dir, Program: "perdure",
		BeforeMigration: func(ctx context.Context, _, _ int64) error {
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
		return fmt.Errorf("%w: another process has migrated it meanwhile, without this backup", perdure.Conflict)
	}
	return nil
}
