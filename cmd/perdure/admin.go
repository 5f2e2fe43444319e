package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/store/sqlite"
)

// garbage says what belongs to whom in a data directory. Where commands cannot be run there are none to be removed.
func garbage(string) backup.Garbage {
	g := backup.Garbage{RunName: runName}
	if runner, err := supervise.New(supervise.Config{}); err == nil {
		g.RemoveRun = runner.Remove
	}
	return g
}

// rotateKey makes a new key the current one and seals what there is under it. Whoever holds the data directory sees the new key
// with the next secret, and seals the others itself.
func rotateKey(ctx context.Context, dir string) (r admin.Rotated, err error) {
	if err := sqlite.RefuseBackup(dir); err != nil {
		return r, err
	}
	file := filepath.Join(dir, backup.KeyringFile)
	keys, err := secret.Load(file)
	if errors.Is(err, perdure.NotFound) {
		return r, fmt.Errorf("%w: there is no keyring %s, so there are no secrets", perdure.NotFound, file)
	}
	key := ""
	if err == nil {
		key, err = keys.Rotate()
	}
	if err != nil {
		return r, err
	}
	st, err := openStore(ctx, cli.Opening{Access: cli.Writing, Dir: dir})
	if errors.Is(err, perdure.Conflict) {
		return admin.Rotated{Held: true}, nil
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := sessionport.NoteRotation(ctx, st, key); err != nil {
		return r, err
	}
	cfg := sessionport.Config{Store: st, Keys: keys}
	r.Sealed, err = sessionport.Reencrypt(ctx, cfg, nil)
	more, failed := sessionport.ResealDirectory(ctx, cfg) // also when a secret is left: what can be done is done
	r.Sealed += more
	return r, errors.Join(err, failed)
}

// forgetting removes what a data directory keeps of a deleted session beside the database, and then forgets where it worked.
// Databases that are open here are closed by whoever opened them; nil: nobody did.
func forgetting(dir string, databases *sessionsql.Store, w *workspaces) func(context.Context, perdure.SessionID) error {
	return func(ctx context.Context, id perdure.SessionID) error {
		_, err := perdure.ParseID[perdure.SessionID](string(id))
		if err != nil {
			return err
		}
		if databases != nil {
			err = databases.Remove(ctx, id)
		} else {
			err = os.RemoveAll(filepath.Join(dir, backup.SQLFolder, string(id)))
		}
		if err != nil {
			return fmt.Errorf("remove the databases of session %s: %w", id, err)
		}
		w.forget(id)
		return nil
	}
}
