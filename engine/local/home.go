package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
)

// What stands in a home; perdure admin backup knows the same names.
const (
	keyringFile = "keyring"
	sqlFolder   = "sql"
	blobFolder  = "blobs"
)

// Home is what sessions have beside the store: sealed secrets, databases of their own and the bytes of large images. It
// stands in a folder. Its parts go into [Config].
type Home struct {
	Secrets Secrets
	Beside  Beside
}

// HomeConfig says where a home is. Dir and Store are required.
type HomeConfig struct {
	Dir     string      // that of the store on SQLite, for instance; what is missing in it is made
	Store   store.Store // that the home belongs to
	Reading bool        // nothing is made, and secrets stay closed: only what is there is opened
	Shared  bool        // other machines use the store, too: as that of Config
	Known   *redact.Set // is told the secrets that are opened; nil: nobody is
}

// OpenHome opens a home. The caller closes it after Run has returned.
//
// A keyring is made where there is none, but for a store that has sealed secrets already, or is shared: the keyring that is
// used elsewhere is to be put there. Until then there are no secrets, and whoever asks for one is told so. Invalid: the
// keyring is none, or others may read it. Storage: something cannot be opened or made.
func OpenHome(ctx context.Context, cfg HomeConfig) (*Home, error) {
	h := &Home{}
	if cfg.Reading {
		return h, h.open(cfg.Dir, func(folder string) bool {
			_, err := os.Stat(filepath.Join(cfg.Dir, folder))
			return err == nil
		})
	}
	err := os.MkdirAll(cfg.Dir, 0o700)
	if err != nil {
		return nil, fmt.Errorf("%w: make the folder of the engine: %w", perdure.Storage, err)
	}
	if h.Secrets, err = cfg.secrets(ctx); err != nil {
		return nil, fmt.Errorf("open the keyring: %w", err)
	}
	if err := h.open(cfg.Dir, func(string) bool { return true }); err != nil {
		return nil, err
	}
	return h, nil
}

// open opens the folders that are wanted. What was opened is closed after an error.
func (h *Home) open(dir string, wanted func(folder string) bool) (err error) {
	if wanted(blobFolder) {
		if h.Beside.Blobs, err = blob.Open(dir); err != nil {
			return err
		}
	}
	if wanted(sqlFolder) {
		if h.Beside.SQL, err = sessionsql.New(sessionsql.Config{Dir: filepath.Join(dir, sqlFolder)}); err != nil {
			return errors.Join(err, h.Close())
		}
	}
	return nil
}

func (c HomeConfig) secrets(ctx context.Context) (s Secrets, err error) {
	file := filepath.Join(c.Dir, keyringFile)
	s.Known = c.Known
	if s.Keys, err = secret.Load(file); !errors.Is(err, perdure.NotFound) {
		return s, err
	}
	if s.NoKeys, err = c.noKeys(ctx, file); err == nil && s.NoKeys == "" {
		s.Keys, err = secret.Create(file)
	}
	return s, err
}

// noKeys says why no keyring may be made; empty: one may.
func (c HomeConfig) noKeys(ctx context.Context, file string) (string, error) {
	if c.Shared {
		return "this machine has no keyring: copy the one of another machine that uses the database to " + file + ", or for the first of them that of any data directory", nil
	}
	used, err := sessionport.KeysInUse(ctx, sessionport.Config{Store: c.Store})
	if err != nil || len(used) == 0 {
		return "", err
	}
	return "the keyring that secrets here are sealed with is missing: put it back as " + file, nil
}

// Close closes what was opened.
func (h *Home) Close() (err error) {
	if h.Beside.SQL != nil {
		err = h.Beside.SQL.Close()
	}
	if h.Beside.Blobs != nil {
		err = errors.Join(err, h.Beside.Blobs.Close())
	}
	return err
}
