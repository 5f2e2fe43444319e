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

// rotateKey makes a new key the current one and seals the secrets of sessions under it. The directory is held meanwhile: whoever
// works in it has the keyring as it was.
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
	return sessionport.Reencrypt(ctx, st, keys, nil)
}

// forgetting removes what a data directory keeps of a deleted session beside the database.
func forgetting(dir string) func(context.Context, perdure.SessionID) error {
	return func(_ context.Context, id perdure.SessionID) error {
		if _, err := perdure.ParseID[perdure.SessionID](string(id)); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(dir, backup.SQLFolder, string(id))); err != nil {
			return fmt.Errorf("remove the databases of session %s: %w", id, err)
		}
		return nil
	}
}
