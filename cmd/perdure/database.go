package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// openDatabase opens the Postgres database that a command was given. What a server keeps on its own disk, its socket, run
// directories and workspaces, still stands in the data directory. Who only reads changes nothing in either.
func openDatabase(ctx context.Context, o cli.Opening) (store.Store, error) {
	if o.Access != cli.Reading {
		if err := sqlite.RefuseBackup(o.Dir); err != nil {
			return nil, err
		}
		if err := free(ctx, o.Dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("%w: data directory %s cannot be made: %w", perdure.Storage, o.Dir, err)
		}
	}
	return postgres.Open(ctx, postgres.Config{URL: o.Database, ReadOnly: o.Access == cli.Reading})
}

// free refuses a data directory in which another process works, which holds its lock or, with a database that is shared, answers on
// its socket: two of them would take the socket from each other.
func free(ctx context.Context, dir string) error {
	held, err := lockHeld(filepath.Join(dir, sqlite.LockName))
	if socket := filepath.Join(dir, socketFile); (err != nil || !held) && !answers(ctx, remote.Config{URL: "unix://" + socket, Actor: "operator"}) {
		return nil
	}
	return fmt.Errorf("%w: data directory %s is held by another process; stop it, or use --data with another directory", perdure.Conflict, dir)
}
