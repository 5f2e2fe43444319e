// Package admin implements the commands that maintain a data directory: backup, restore, verify,
// migrate, gc, rotate-key, scheduler.
//
// It may import the root and internal/backup. The one thing to know: these commands do not use a
// server. They work on the files, also while another process holds the directory, and report when
// that prevents them.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
)

// Operations holds the functions that the commands must not import. With the zero value, gc ignores
// runs and blobs.
type Operations struct {
	// Garbage returns which runs and blobs of a data directory are still in use.
	Garbage func(dir string) backup.Garbage
	// RotateKey adds a key to the keyring of a data directory. It also re-encrypts every secret
	// with it, unless another process holds the directory. NotFound: there is no keyring.
	RotateKey func(ctx context.Context, dir string) (RotateResult, error)
	// Schema returns the schema version of a store. NotFound: there is no store yet.
	Schema func(context.Context, StoreLocation) (Schema, error)
	// Migrate migrates a store to the newest schema. It calls before when no other process can
	// write to the data directory and nothing is changed yet; an error of before ends the
	// migration. Conflict: another process holds the directory.
	Migrate func(ctx context.Context, p StoreLocation, before func(context.Context) error) error
	// Scheduler returns the name of the scheduler that works on a store; empty: none has yet.
	// NotFound: there is no store yet.
	Scheduler func(context.Context, StoreLocation) (string, error)
	// ChangeScheduler gives a store to another scheduler, and returns the former one. Conflict: a
	// process works on the store.
	ChangeScheduler func(ctx context.Context, p StoreLocation, to string) (string, error)
}

// RotateResult is the result of a key rotation.
type RotateResult struct {
	Sealed     int  // secrets, keys and tokens that are encrypted with the new key; set also with an error
	Background bool // another process holds the directory and re-encrypts the rest
}

// Console gives the commands access to the command line.
type Console interface {
	Messages
	// Store returns where the sessions are stored, and the server to use. Empty: not given.
	Store() (dir, database, server string)
	// Dir returns the data directory. Invalid: there is none.
	Dir() (string, error)
	// Program returns the version of the program.
	Program() string
	// Operations returns the functions that main provides.
	Operations() Operations
}

// Messages prints data and messages.
type Messages interface {
	// Out returns the stream for data.
	Out() io.Writer
	// Say writes a message line.
	Say(format string, args ...any)
	// NoteWait says what the command waits for, once it has waited long. ended must be called.
	NoteWait(what string) (ended func())
	// Safe filters data for printing.
	Safe(text string) string
}

// Commands are the verbs of admin.
type Commands struct {
	Backup  Backup  `cmd:"" help:"Back up the data directory to a new folder, even while it is in use."`
	Restore Restore `cmd:"" help:"Restore a backup into an empty data directory."`
	Verify  Verify  `cmd:"" help:"Verify all data of the data directory or of a backup."`
	GC      GC      `cmd:"" name:"gc" help:"Remove data that no session uses any more."`

	Migrate Migrate `cmd:"" help:"Back up the store and migrate it to the newest schema. Commands that write to the store also migrate it, but make no backup."`

	RotateKey RotateKey `cmd:"" help:"Encrypt all secrets with a new key. A running server continues and does it."`

	Scheduler Scheduler `cmd:"" help:"Show which scheduler works on the store, or give the store to another one."`
}

// outputFlags are the output flags of the commands.
type outputFlags struct {
	Output string `short:"o" help:"Output format: text or json." placeholder:"FORMAT" enum:"text,json" default:"text"`
}

// print writes a value as JSON, if that was requested.
func (f outputFlags) print(d Console, v any) error {
	if f.Output != "json" {
		return nil
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(d.Out(), "%s\n", text)
	}
	return err
}

// Backup makes a backup.
type Backup struct {
	To      string `arg:"" help:"New folder for the backup, which must not exist." type:"path"`
	WithKey bool   `help:"Include the keyring. Anyone with the backup can then read every secret."`
	outputFlags
}

// Run makes the backup.
func (c *Backup) Run(ctx context.Context, d Console) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	copied := d.NoteWait("the copy of all data")
	m, err := backup.Take(ctx, backup.Config{Dir: dir, To: c.To, WithKey: c.WithKey, Program: d.Program()})
	copied()
	if err != nil {
		return err
	}
	to, err := filepath.Abs(c.To)
	if err == nil {
		err = backup.WriteLast(dir, backup.Last{CreatedAt: m.CreatedAt, To: to, SizeBytes: m.SizeBytes()})
	}
	if err != nil { // the backup is complete
		d.Say("the data directory does not record this backup: %s", d.Safe(err.Error()))
	}
	d.Say("backed up %s to %s: %s, %d bytes", d.Safe(dir), d.Safe(c.To), count(len(m.Files), "file"), m.SizeBytes())
	for _, name := range m.Damaged {
		d.Say("%s is damaged and was copied as it is: recreate it in its session, or restore it from an older backup",
			d.Safe(name))
	}
	d.Say("not included: running commands, workspace folders outside the data directory, and the token of the server")
	if m.HasKey {
		d.Say("the backup includes the keyring: protect it like the secrets themselves")
	} else if _, err := os.Stat(filepath.Join(dir, backup.KeyringFile)); err == nil {
		d.Say("the keyring is not included: without %s the secrets cannot be read, so keep a copy of it elsewhere",
			d.Safe(filepath.Join(dir, backup.KeyringFile)))
	}
	return c.print(d, m)
}

// Restore restores a backup.
type Restore struct {
	From string `arg:"" help:"Folder of the backup." type:"path"`
	outputFlags
}

// Run restores the backup.
func (c *Restore) Run(_ context.Context, d Console) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	m, err := backup.Restore(c.From, dir)
	if err != nil {
		return err
	}
	d.Say("restored to %s the backup of %s: %s, %d bytes", d.Safe(dir), m.CreatedAt.Format("2006-01-02 15:04:05 MST"),
		count(len(m.Files), "file"), m.SizeBytes())
	d.Say("the next serve or run continues unfinished work, as after a crash: stop the original server before you start one here")
	return c.print(d, m)
}

// Verify verifies all data.
type Verify struct {
	Backup string   `arg:"" optional:"" help:"Verify this backup instead of the data directory." type:"path"`
	Audit  []string `help:"Check that the audit log of an org still contains this entry, as printed by an earlier verify. Repeatable." placeholder:"ORG:SEQ:HASH" sep:"none"`
	outputFlags
}

// Run verifies the data. Any finding is an error.
func (c *Verify) Run(ctx context.Context, d Console) error {
	dir, err := c.Backup, error(nil)
	if dir == "" {
		dir, err = d.Dir()
	}
	if err != nil {
		return err
	}
	ended := d.NoteWait("the check of all data")
	rep, err := backup.Verify(ctx, dir, c.Audit...)
	ended()
	if err != nil {
		return err
	}
	if err := c.print(d, rep); err != nil {
		return err
	}
	if c.Output == "text" {
		fmt.Fprintf(d.Out(), "%d sessions, %d events, %d calls, %d tasks, %d files, %d snapshots, %d session databases, %d blobs, %d audit entries\n",
			rep.Sessions, rep.Events, rep.Calls, rep.Tasks, rep.Files, rep.Snapshots, rep.Databases, rep.Blobs,
			rep.Audited)
		for _, head := range rep.AuditHeads {
			fmt.Fprintf(d.Out(), "audit log ends with %s:%d:%s\n", d.Safe(head.Org), head.Seq, d.Safe(head.Hash))
		}
		for _, wrong := range rep.Problems {
			fmt.Fprintf(d.Out(), "error: %s\n", d.Safe(wrong))
		}
	}
	if len(rep.Problems) > 0 {
		return fmt.Errorf("%s is damaged: %s; leave it unchanged, and restore a backup into another directory",
			dir, count(len(rep.Problems), "error"))
	}
	d.Say("%s is intact", d.Safe(dir))
	return nil
}

// GC removes unused data.
type GC struct {
	Vacuum bool `help:"Also release unused space of the database to the disk. No other process may hold the data directory."`
	DryRun bool `help:"Print what would be removed."`
	outputFlags
}

// Run removes unused data.
func (c *GC) Run(ctx context.Context, d Console) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	g := backup.Garbage{}
	if hands := d.Operations(); hands.Garbage != nil {
		g = hands.Garbage(dir)
	}
	g.Dir, g.Vacuum, g.DryRun = dir, c.Vacuum, c.DryRun
	ended := d.NoteWait("the search for unused data")
	found, err := g.Collect(ctx)
	ended()
	if err != nil {
		return err
	}
	went := "removed"
	if c.DryRun {
		went = "would be removed"
	}
	d.Say("%d run directories, %d homes of commands, %d folders of session databases, %d blobs of %d bytes and %d unfinished files %s; data younger than an hour is kept",
		found.Runs, found.Homes, found.SQLFolders, found.Blobs, found.BlobBytes, found.Partial, went)
	if c.Vacuum && !c.DryRun {
		d.Say("the database shrank by %d bytes", found.FreedBytes)
	}
	if err := c.print(d, found); err != nil {
		return err
	}
	if len(found.Failures) > 0 {
		return fmt.Errorf("%w: could not remove %d items now: %s", perdure.Unavailable, len(found.Failures), found.Failures[0])
	}
	return nil
}

// RotateKey creates a new current key.
type RotateKey struct{}

// Run rotates the key. If it is interrupted, all secrets stay readable, and it can be run again.
func (c *RotateKey) Run(ctx context.Context, d Console) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	rotate := d.Operations().RotateKey
	if rotate == nil {
		return fmt.Errorf("%w: this build cannot store secrets", perdure.Unavailable)
	}
	ended := d.NoteWait("the new key")
	rotated, err := rotate(ctx, dir)
	ended()
	if err != nil {
		return err
	}
	if rotated.Background {
		d.Say("new secrets use the new key; the server of %s re-encrypts the others within seconds, and logs it",
			d.Safe(dir))
		return nil
	}
	d.Say("%d secrets, provider keys and tokens are encrypted with the new key; older keys stay in the keyring, for backups", rotated.Sealed)
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
