package admin

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
)

// Place is where sessions are kept.
type Place struct {
	Dir      string // the data directory
	Database string // of Postgres; empty: in the data directory
}

// Schema is what a store is written in.
type Schema struct {
	Stored int64    `json:"stored"` // its number
	Known  int64    `json:"known"`  // the newest that this program knows
	Steps  []string `json:"steps"`  // from the one to the other
}

// Migrate brings a store up to date.
type Migrate struct {
	Backup   string `help:"Where the backup of the data directory goes: a folder that is not there yet. Default: beside it, with the number of its schema." placeholder:"DIR" type:"path" xor:"backup"`
	NoBackup bool   `help:"Make no backup before. Perdure makes none of a Postgres database: pg_dump does." xor:"backup"`
	DryRun   bool   `help:"Only say what would be done."`
	form
}

// migrated is what came of it.
type migrated struct {
	Schema
	Backup string `json:"backup,omitempty"` // the folder
	Done   bool   `json:"done"`             // the store has the newest schema
}

// Run migrates. Stopped in the middle, it goes on with the next start of whatever opens the store.
func (c *Migrate) Run(ctx context.Context, d Desk) error {
	place, err := c.place(d)
	if err != nil {
		return err
	}
	hands := d.Hands()
	found, err := hands.Schema(ctx, place)
	if err != nil {
		return err
	}
	m := migrated{Schema: found, Done: found.Stored == found.Known}
	switch {
	case found.Stored > found.Known:
		return fmt.Errorf("%w: it was written by a newer version (schema %d, this program knows %d): use that version or a newer one", perdure.Conflict, found.Stored, found.Known)
	case m.Done:
		d.Say("schema %d, which is the newest that this program knows: there is nothing to do", found.Stored)
		return c.print(d, m)
	}
	if place.Database == "" && !c.NoBackup {
		if m.Backup = c.Backup; m.Backup == "" {
			m.Backup = fmt.Sprintf("%s.schema-%d", filepath.Clean(place.Dir), found.Stored)
		}
	}
	if c.DryRun {
		d.Say("schema %d would become %d, by %s", found.Stored, found.Known, strings.Join(found.Steps, ", "))
		if m.Backup != "" {
			d.Say("before that it would be copied to %s", d.Safe(m.Backup))
		}
		return c.print(d, m)
	}
	if place.Database != "" && !c.NoBackup {
		return fmt.Errorf("%w way: a Postgres database is backed up by pg_dump, not here: do that first, then say --no-backup", perdure.Invalid)
	}
	err = hands.Migrate(ctx, place, func(ctx context.Context) error {
		if m.Backup == "" {
			return nil
		}
		made, err := backup.Take(ctx, backup.Config{Dir: place.Dir, To: m.Backup, Program: d.Program()})
		if err == nil {
			d.Say("the backup is in %s: %s, %d bytes; admin restore puts it into an empty directory", d.Safe(m.Backup), files(len(made.Files)), made.SizeBytes())
		}
		return err
	})
	if err != nil {
		return err
	}
	m.Stored, m.Steps, m.Done = m.Known, []string{}, true
	d.Say("schema %d became %d, by %s; older versions of perdure refuse it now", found.Stored, found.Known, strings.Join(found.Steps, ", "))
	return c.print(d, m)
}

// place is what the flags say. Invalid: a server has no files here.
func (c *Migrate) place(d Desk) (Place, error) {
	dir, database, server := d.Store()
	if database != "" && server == "" {
		return Place{Dir: dir, Database: database}, nil
	}
	dir, err := d.Dir()
	return Place{Dir: dir}, err
}
