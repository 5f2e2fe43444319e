package admin

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
)

// StoreLocation is where sessions are stored.
type StoreLocation struct {
	Dir      string // the data directory
	Database string // URL of a Postgres database; empty: they are in the data directory
}

// Schema is the schema version of a store.
type Schema struct {
	Stored int64    `json:"stored"` // current version
	Known  int64    `json:"known"`  // newest version that this program knows
	Steps  []string `json:"steps"`  // names of the migrations between them
}

// Migrate migrates a store to the newest schema.
type Migrate struct {
	Backup   string `help:"New folder for the backup. Default: beside the data directory, with its schema version in the name." placeholder:"DIR" type:"path" xor:"backup"`
	NoBackup bool   `help:"Make no backup first. Required for Postgres: back it up with pg_dump." xor:"backup"`
	DryRun   bool   `help:"Print what would be done, without doing it."`
	outputFlags
}

// migrateResult is the result of a migration.
type migrateResult struct {
	Schema
	Backup string `json:"backup,omitempty"` // folder of the backup
	Done   bool   `json:"done"`             // the store has the newest schema
}

// Run migrates. If it is interrupted, the next program that opens the store for writing continues.
func (c *Migrate) Run(ctx context.Context, d Console) error {
	place, err := storeOf(d)
	if err != nil {
		return err
	}
	hands := d.Operations()
	found, err := hands.Schema(ctx, place)
	if err != nil {
		return err
	}
	m := migrateResult{Schema: found, Done: found.Stored == found.Known}
	switch {
	case found.Stored > found.Known:
		return fmt.Errorf("%w: the store was written by a newer version (schema %d, this program knows %d): use that version or a newer one", perdure.Conflict, found.Stored, found.Known)
	case m.Done:
		d.Say("schema %d is up to date: there is nothing to do", found.Stored)
		return c.print(d, m)
	}
	if place.Database == "" && !c.NoBackup {
		if m.Backup = c.Backup; m.Backup == "" {
			m.Backup = fmt.Sprintf("%s.schema-%d", filepath.Clean(place.Dir), found.Stored)
		}
	}
	if c.DryRun {
		d.Say("would migrate schema %d to %d: %s", found.Stored, found.Known, strings.Join(found.Steps, ", "))
		if m.Backup != "" {
			d.Say("would first back up the data directory to %s", d.Safe(m.Backup))
		}
		return c.print(d, m)
	}
	if place.Database != "" && !c.NoBackup {
		return fmt.Errorf("%w call: perdure cannot back up a Postgres database: use pg_dump first, then add --no-backup", perdure.Invalid)
	}
	defer d.NoteWait("the migration")()
	err = hands.Migrate(ctx, place, func(ctx context.Context) error {
		if m.Backup == "" {
			return nil
		}
		made, err := backup.Take(ctx, backup.Config{Dir: place.Dir, To: m.Backup, Program: d.Program()})
		if err == nil {
			d.Say("backed up to %s: %s, %d bytes; restore it with admin restore", d.Safe(m.Backup),
				count(len(made.Files), "file"), made.SizeBytes())
		}
		return err
	})
	if err != nil {
		return err
	}
	m.Stored, m.Steps, m.Done = m.Known, []string{}, true
	d.Say("migrated schema %d to %d: %s; older versions of perdure can no longer open it", found.Stored, found.Known,
		strings.Join(found.Steps, ", "))
	return c.print(d, m)
}

// storeOf returns where the sessions are stored. Invalid: the flags name a server, which has no
// files here.
func storeOf(d Console) (StoreLocation, error) {
	dir, database, server := d.Store()
	if database != "" && server == "" {
		return StoreLocation{Dir: dir, Database: database}, nil
	}
	dir, err := d.Dir()
	return StoreLocation{Dir: dir}, err
}
