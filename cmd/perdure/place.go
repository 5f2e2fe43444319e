package main

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

// The stores, as a server names them.
const (
	sqliteStore   = "sqlite"
	postgresStore = "postgres"
)

// placeOf says where an engine of this process keeps its sessions.
func placeOf(ctx context.Context, dir, database string) (p engine.Place, err error) {
	if p.Directory, err = directoryID(dir); err != nil {
		return p, fmt.Errorf("%w: look at data directory %s: %w", perdure.Storage, dir, err)
	}
	p.Store, p.ID = sqliteStore, p.Directory
	if database != "" {
		p.Store = postgresStore
		p.ID, err = postgres.Identity(ctx, postgres.Config{URL: database})
	}
	return p, err
}

// directoryID tells folders of machines apart, whatever the path to one. It is another one after the machine began anew.
func directoryID(dir string) (string, error) {
	about, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	machine, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // containers of a machine share it
	if err != nil {
		name, unnamed := os.Hostname()
		machine = []byte(cmp.Or(name, fmt.Sprint(unnamed)))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "directory %s %s", strings.TrimSpace(string(machine)), fileID(dir, about)))
	return hex.EncodeToString(sum[:16]), nil
}

// placed is who says where it keeps its sessions.
type placed interface {
	Place(context.Context) (engine.Place, error)
}

// checkPlace refuses to ask a server that keeps its sessions elsewhere than a command says: in another database than it names, or,
// where it names a server as well, in another data directory. Nothing was asked of the server before.
func checkPlace(ctx context.Context, o cli.Opening, server placed) error {
	whose, unset := "the server that holds "+o.Dir, "--database and PERDURE_DATABASE"
	if o.Server != "" {
		whose, unset = "the server that is named", "--server and PERDURE_SERVER"
	}
	if o.Database == "" && (o.Server == "" || o.Dir == "") {
		return nil // the command names nothing besides
	}
	at, err := server.Place(ctx)
	if errors.Is(err, perdure.NotFound) {
		return &cli.Elsewhere{What: whose + " cannot say which store it has, and the command names one besides", Todo: "name only one of them, or restart that server with this version"}
	}
	if err != nil {
		return fmt.Errorf("ask %s which store it has: %w", whose, err)
	}
	if o.Database != "" {
		named := ""
		if at.Store == postgresStore {
			if named, err = postgres.Identity(ctx, postgres.Config{URL: o.Database}); err != nil {
				return fmt.Errorf("compare the database that is named with that of the server: %w", err)
			}
		}
		if named != at.ID || named == "" {
			todo := "leave " + unset + " out to ask that server, or name another directory with --data for the work on this database"
			if o.Server != "" {
				todo = "leave --database and PERDURE_DATABASE out to ask that server, or " + unset + " to work on the database"
			}
			return &cli.Elsewhere{What: "--database or PERDURE_DATABASE names one store, and " + whose + " has another (" + kindOf(at) + ")", Todo: todo}
		}
	}
	if o.Server == "" || o.Dir == "" {
		return nil
	}
	named, err := directoryID(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: look at data directory %s: %w", perdure.Storage, o.Dir, err)
	}
	if named != at.Directory || named == "" {
		return &cli.Elsewhere{
			What: "--data or PERDURE_DATA names " + o.Dir + ", and " + whose + " has another data directory",
			Todo: "leave --data and PERDURE_DATA out to ask that server, or " + unset + " to work in the directory",
		}
	}
	return nil
}

func kindOf(at engine.Place) string {
	if at.Store == postgresStore {
		return "a Postgres database"
	}
	return "that of its data directory"
}

// sameDatabase reports whether two URLs lead to one database. What cannot be found out is not the same.
func sameDatabase(ctx context.Context, one, other string) bool {
	first, err := postgres.Identity(ctx, postgres.Config{URL: one})
	if err != nil {
		return false
	}
	second, err := postgres.Identity(ctx, postgres.Config{URL: other})
	return err == nil && first == second
}

// Attended reports that the server does the work.
func (*far) Attended(context.Context) bool { return true }

// Attended reports whether somebody works on what is read.
func (r *reader) Attended(ctx context.Context) bool {
	if r.holderThere(ctx) {
		return true
	}
	st, err := r.openStore(ctx)
	return err != nil || st.Attended(ctx)
}

// Attended reports whether somebody works on the store: this process, whoever holds the data directory, or another server of the
// database. What cannot be found out counts as so.
func (e *opened) Attended(ctx context.Context) bool {
	if e.access != cli.Reading {
		return true
	}
	if !e.cfg.Shared {
		held, err := lockHeld(filepath.Join(e.door.dir, sqlite.LockName))
		return held || err != nil && !errors.Is(err, fs.ErrNotExist)
	}
	var workers []store.Worker
	err := e.store.View(ctx, func(r store.Reader) (err error) {
		workers, err = r.Workers()
		return err
	})
	return err != nil || slices.ContainsFunc(workers, func(w store.Worker) bool { return w.LeaseUntil.After(time.Now()) })
}
