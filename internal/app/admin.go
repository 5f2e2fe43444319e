package app

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
	"github.com/perdure/perdure/tool/shell"
)

// collectGarbage returns which runs and blobs of a data directory are in use. Where commands cannot
// run, there are no runs to remove.
func collectGarbage(string) backup.Garbage {
	g := backup.Garbage{RunName: runName, RemoveHome: supervise.RemoveHome}
	if runner, err := supervise.New(supervise.Config{}); err == nil {
		g.RemoveRun = runner.Remove
	}
	return g
}

// rotateKey creates a new current key and re-encrypts the secrets with it. If another process holds
// the data directory, that process finds the new key with its next secret, and re-encrypts the
// others itself.
func rotateKey(ctx context.Context, dir string) (r admin.RotateResult, err error) {
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
	st, err := openStore(ctx, cli.OpenOptions{Access: cli.Writing, Dir: dir})
	if errors.Is(err, perdure.Conflict) {
		return admin.RotateResult{Background: true}, nil
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := sessionport.AuditRotation(ctx, st, key); err != nil {
		return r, err
	}
	cfg := sessionport.Config{Store: st, Keys: keys}
	r.Sealed, err = sessionport.Reencrypt(ctx, cfg, nil)
	// runs also after an error, to re-encrypt as much as possible
	more, failed := sessionport.ReencryptDirectory(ctx, cfg)
	r.Sealed += more
	return r, errors.Join(err, failed)
}

// sessionRemover returns a function that removes the data of a deleted session from outside the
// database, and then forgets its workspace. databases are the open session databases; nil: none are
// open.
func sessionRemover(dir string, databases *sessionsql.Store, w *workspaces) func(context.Context, perdure.SessionID) error {
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
		if err := shell.RemoveHome(filepath.Join(dir, backup.HomeFolder), id); err != nil {
			return err
		}
		w.remove(id)
		return nil
	}
}
