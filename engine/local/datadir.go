package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
)

// The names in a data directory. perdure admin backup uses the same names.
const (
	keyringFile = "keyring"
	sqlFolder   = "sql"
	blobFolder  = "blobs"
)

// DataDir is a data directory: its id, and what sessions store outside the store, namely the
// keyring for their secrets, their databases, and the bytes of large images. Its Storage goes
// into [Config].
type DataDir struct{ Storage }

// DataDirConfig configures a data directory. Dir and Store are required.
type DataDirConfig struct {
	Dir      string      // for example the directory of the SQLite store; missing parts are created
	Store    store.Store // the store that the data belongs to
	ReadOnly bool        // creates nothing and loads no keys; only existing parts are opened
	Shared   bool        // other machines use the store too, as in Config
	SQL      SQLLimits   // of the databases of sessions
	Known    *redact.Set // receives the secrets that are decrypted; nil: none are collected
}

// SQLLimits bounds the databases of sessions. In each field 0 is the default.
type SQLLimits struct {
	Databases     int           // of a session; 0: 10
	DatabaseBytes int64         // of a database; 0: 50 MiB
	SessionBytes  int64         // of all databases of a session; 0: 100 MiB
	Timeout       time.Duration // of a statement; 0: 30 s
}

// OpenDataDir opens a data directory. The caller closes it after Run has returned, and makes sure
// that one process at a time works in the directory: over a shared store an engine declares the
// earlier workers of its directory dead when it starts (RC31).
//
// If there is no keyring, OpenDataDir creates one, unless the store is shared or has encrypted
// secrets already: then the existing keyring must be copied into the directory. Until that is done
// there are no secrets, and a request for one fails with this explanation. Invalid: the file is not
// a keyring, or other users can read it. Storage: something cannot be opened or created.
func OpenDataDir(ctx context.Context, cfg DataDirConfig) (*DataDir, error) {
	h := &DataDir{}
	if cfg.ReadOnly {
		home, err := readHome(filepath.Join(cfg.Dir, homeFile))
		if err == nil {
			h.Home = home // otherwise no process has worked here
		}
		return h, h.open(cfg, func(folder string) bool {
			_, err := os.Stat(filepath.Join(cfg.Dir, folder))
			return err == nil
		})
	}
	err := os.MkdirAll(cfg.Dir, 0o700)
	if err != nil {
		return nil, fmt.Errorf("%w: create the data directory: %w", perdure.Storage, err)
	}
	if h.Home, err = openHome(cfg.Dir); err != nil {
		return nil, err
	}
	if h.Secrets, err = cfg.secrets(ctx); err != nil {
		return nil, fmt.Errorf("open the keyring: %w", err)
	}
	if err := h.open(cfg, func(string) bool { return true }); err != nil {
		return nil, err
	}
	return h, nil
}

// open opens the wanted parts. After an error it closes what it has opened.
func (h *DataDir) open(cfg DataDirConfig, wanted func(folder string) bool) (err error) {
	if wanted(blobFolder) {
		if h.Blobs, err = blob.Open(cfg.Dir); err != nil {
			return err
		}
	}
	if wanted(sqlFolder) {
		if h.SQL, err = sessionsql.New(sessionsql.Config{
			Dir: filepath.Join(cfg.Dir, sqlFolder), MaxDatabases: cfg.SQL.Databases,
			MaxDatabaseBytes: cfg.SQL.DatabaseBytes, MaxSessionBytes: cfg.SQL.SessionBytes, Timeout: cfg.SQL.Timeout,
		}); err != nil {
			return errors.Join(err, h.Close())
		}
	}
	return nil
}

func (c DataDirConfig) secrets(ctx context.Context) (s Secrets, err error) {
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

// noKeys explains why no keyring may be created; empty: one may.
func (c DataDirConfig) noKeys(ctx context.Context, file string) (string, error) {
	if c.Shared {
		return "this machine has no keyring: copy the keyring of another machine that uses the database to " + file +
			"; on the first machine, use the keyring of any data directory", nil
	}
	used, err := sessionport.KeysInUse(ctx, sessionport.Config{Store: c.Store})
	if err != nil || len(used) == 0 {
		return "", err
	}
	return "the keyring that the stored secrets are encrypted with is missing: restore it as " + file, nil
}

// Close closes the opened parts.
func (h *DataDir) Close() (err error) {
	if h.SQL != nil {
		err = h.SQL.Close()
	}
	if h.Blobs != nil {
		err = errors.Join(err, h.Blobs.Close())
	}
	return err
}
