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
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/internal/supervise"
)

// garbage says what belongs to whom in a data directory. Where commands cannot be run there are none to be removed.
func garbage(string) backup.Garbage {
	g := backup.Garbage{RunName: runName}
	if runner, err := supervise.New(supervise.Config{}); err == nil {
		g.RemoveRun = runner.Remove
	}
	return g
}

// rotateKey makes a new key the current one and seals the secrets of sessions, the keys of providers and the tokens of
// connections under it. The directory is held meanwhile: whoever works in it has the keyring as it was.
func rotateKey(ctx context.Context, dir string) (sealed int, err error) {
	file := filepath.Join(dir, backup.KeyringFile)
	keys, err := secret.Load(file)
	if errors.Is(err, perdure.NotFound) {
		return 0, fmt.Errorf("%w: there is no keyring %s, so there are no secrets", perdure.NotFound, file)
	}
	if err != nil {
		return 0, err
	}
	st, err := openStore(ctx, cli.Opening{Access: cli.Writing, Dir: dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if _, err := keys.Rotate(); err != nil {
		return 0, err
	}
	cfg := sessionport.Config{Store: st, Keys: keys}
	sealed, err = sessionport.Reencrypt(ctx, cfg, nil)
	more, failed := sessionport.ResealDirectory(ctx, cfg) // also when a secret is left: what can be done is done
	return sealed + more, errors.Join(err, failed)
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
