package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
)

// The names of the stores, as a server reports them.
const (
	sqliteStore   = "sqlite"
	postgresStore = "postgres"
)

// storeOf returns where an engine of this process stores its sessions.
func storeOf(ctx context.Context, dir, database string) (p engine.StorageIdentity, err error) {
	if p.Directory, err = directoryID(dir); err != nil {
		return p, fmt.Errorf("%w: inspect data directory %s: %w", perdure.Storage, dir, err)
	}
	p.Store, p.ID = sqliteStore, p.Directory
	if database != "" {
		p.Store = postgresStore
		p.ID, err = postgres.Identity(ctx, postgres.Config{URL: database})
	}
	return p, err
}

// directoryID identifies a folder of a machine, independent of its path. It changes when the
// machine reboots.
func directoryID(dir string) (string, error) {
	about, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	machine, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // shared by all containers of a machine
	if err != nil {
		name, unnamed := os.Hostname()
		machine = []byte(cmp.Or(name, fmt.Sprint(unnamed)))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "directory %s %s", strings.TrimSpace(string(machine)), fileID(dir, about)))
	return hex.EncodeToString(sum[:16]), nil
}

// storeWithPlace reports where it stores its sessions.
type storeWithPlace interface {
	StorageIdentity(context.Context) (engine.StorageIdentity, error)
}

// checkStores refuses a server that stores its sessions elsewhere than the command says: in another
// database, or in another data directory if the command names a server as well. It runs before any
// other request.
func checkStores(ctx context.Context, o cli.OpenOptions, server storeWithPlace) error {
	whose, unset := "the server of "+o.Dir, "--database and PERDURE_DATABASE"
	if o.Server != "" {
		whose, unset = "the given server", "--server and PERDURE_SERVER"
	}
	if o.Database == "" && (o.Server == "" || o.Dir == "") {
		return nil // the command names nothing else
	}
	at, err := server.StorageIdentity(ctx)
	if errors.Is(err, perdure.NotFound) {
		return &cli.StoreMismatch{What: whose + " cannot report its store, but the command names one as well",
			Todo: "name only one of them, or restart that server with this version"}
	}
	if err != nil {
		return fmt.Errorf("get the store of %s: %w", whose, err)
	}
	if o.Database != "" {
		named := ""
		if at.Store == postgresStore {
			if named, err = postgres.Identity(ctx, postgres.Config{URL: o.Database}); err != nil {
				return fmt.Errorf("compare the given database with that of the server: %w", err)
			}
		}
		if named != at.ID || named == "" {
			todo := "remove " + unset +
				" to use that server, or give another directory with --data to work on this database"
			if o.Server != "" {
				todo = "remove --database and PERDURE_DATABASE to use that server, or " + unset +
					" to work on the database"
			}
			return &cli.StoreMismatch{What: "--database or PERDURE_DATABASE names one store, but " + whose +
				" has another (" + kindOf(at) + ")", Todo: todo}
		}
	}
	if o.Server == "" || o.Dir == "" {
		return nil
	}
	named, err := directoryID(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: inspect data directory %s: %w", perdure.Storage, o.Dir, err)
	}
	if named != at.Directory || named == "" {
		return &cli.StoreMismatch{
			What: "--data or PERDURE_DATA names " + o.Dir + ", but " + whose + " has another data directory",
			Todo: "remove --data and PERDURE_DATA to use that server, or " + unset + " to work in the directory",
		}
	}
	return nil
}

func kindOf(at engine.StorageIdentity) string {
	if at.Store == postgresStore {
		return "a Postgres database"
	}
	return "the one in its data directory"
}

// sameDatabase reports whether two URLs lead to the same database. It returns false when that
// cannot be determined.
func sameDatabase(ctx context.Context, one, other string) bool {
	first, err := postgres.Identity(ctx, postgres.Config{URL: one})
	if err != nil {
		return false
	}
	second, err := postgres.Identity(ctx, postgres.Config{URL: other})
	return err == nil && first == second
}

// Attended reports that the server does the work.
func (*remoteEngine) Attended(context.Context) bool { return true }

// Attended reports whether a process works on the store that is read.
func (r *reader) Attended(ctx context.Context) bool {
	if r.holderResponds(ctx) {
		return true
	}
	st, err := r.openStore(ctx)
	return err != nil || st.Attended(ctx)
}

// Attended reports whether a process works on the store: this one, the holder of the data
// directory, or another server of the database. It returns true when that cannot be determined.
func (e *localEngine) Attended(ctx context.Context) bool {
	if e.access != cli.Reading {
		return true
	}
	if !e.cfg.Workers.Shared {
		held, err := lockHeld(filepath.Join(e.door.dir, sqlite.LockName))
		return held || err != nil && !errors.Is(err, fs.ErrNotExist)
	}
	workers, err := store.Read(ctx, e.store, func(r store.Reader) ([]store.Worker, error) {
		return r.Workers().List()
	})
	return err != nil || slices.ContainsFunc(workers,
		func(w store.Worker) bool { return w.LeaseUntil.After(time.Now()) })
}
