package app

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

// openDatabase opens the Postgres database of a command. Local data of a server (its socket, run
// directories and workspaces) stays in the data directory. A reader changes nothing in either.
func openDatabase(ctx context.Context, o cli.OpenOptions) (store.Store, error) {
	if o.Access != cli.Reading {
		if err := sqlite.RefuseBackup(o.Dir); err != nil {
			return nil, err
		}
		if err := free(ctx, o.Dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("%w: create data directory %s: %w", perdure.Storage, o.Dir, err)
		}
	}
	return postgres.Open(ctx, postgres.Config{URL: o.Database, ReadOnly: o.Access == cli.Reading})
}

// free refuses a data directory that another process uses: one that holds its lock or, with a
// shared database, responds on its socket. Two such processes would take the socket from each
// other.
func free(ctx context.Context, dir string) error {
	held, err := lockHeld(filepath.Join(dir, sqlite.LockName))
	if socket := filepath.Join(dir, socketFile); (err != nil || !held) &&
		!responds(ctx, remote.Config{URL: "unix://" + socket, Actor: "operator"}) {
		return nil
	}
	return fmt.Errorf("%w: data directory %s is held by another process; stop it, or use another directory with --data",
		perdure.Conflict, dir)
}
