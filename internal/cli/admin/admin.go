// Package admin is the room of the command line for who looks after a data directory: backup, restore, verify, migrate, gc, rotate-key.
//
// It may import the root and internal/backup. The one thing to know: these commands ask no server. They work on the files,
// beside whoever holds them, and say what would keep them from it.
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

// Hands is what the commands may not import. The zero value leaves commands' runs and blobs alone.
type Hands struct {
	// Garbage says what belongs to whom in a data directory.
	Garbage func(dir string) backup.Garbage
	// RotateKey adds a key to the keyring of a data directory and seals every secret under it, as far as nobody holds the
	// directory. NotFound: there is no keyring.
	RotateKey func(ctx context.Context, dir string) (Rotated, error)
	// Schema says which schema a store has. NotFound: there is nothing yet.
	Schema func(context.Context, Place) (Schema, error)
	// Migrate brings a store up to date. before is called while nobody else can write to a data directory, and before anything is
	// changed; its error is the end. Conflict: somebody holds the directory.
	Migrate func(ctx context.Context, p Place, before func(context.Context) error) error
}

// Rotated is what came of a new key.
type Rotated struct {
	Sealed int  // secrets, keys and tokens that are sealed under it now; also with an error
	Held   bool // somebody holds the directory, and seals them
}

// Desk is what the commands use of the command line.
type Desk interface {
	Talk
	// Store is where sessions are kept; server asks somebody who has them. Empty: not given.
	Store() (dir, database, server string)
	// Dir is the data directory. Invalid: there is none.
	Dir() (string, error)
	// Program is the version, for people.
	Program() string
	// Hands is what main gave.
	Hands() Hands
}

// Talk is where the commands say what there is.
type Talk interface {
	// Out is where data goes.
	Out() io.Writer
	// Say writes a line for people.
	Say(format string, args ...any)
	// Safe returns data as it may be printed.
	Safe(text string) string
}

// Commands are the verbs of admin.
type Commands struct {
	Backup  Backup  `cmd:"" help:"Copy the data directory to a new folder, while others work in it."`
	Restore Restore `cmd:"" help:"Put a backup into an empty data directory."`
	Verify  Verify  `cmd:"" help:"Read the data directory, or a backup, whole, and say what is wrong with it."`
	GC      GC      `cmd:"" name:"gc" help:"Remove what belongs to no session any more."`

	Migrate Migrate `cmd:"" help:"Bring the store up to date: a newer schema than an older version wrote, with a backup before. Whatever opens it for writing does that, too, without one."`

	RotateKey RotateKey `cmd:"" help:"Seal all secrets under a new key. Whoever holds the data directory works on, and seals them."`
}

// form is how the commands print what they found.
type form struct {
	Output string `short:"o" help:"text, or json for programs." placeholder:"FORM" enum:"text,json" default:"text"`
}

// print writes a value as JSON, if that was asked for.
func (f form) print(d Desk, v any) error {
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
	To      string `arg:"" help:"A folder that is not there yet." type:"path"`
	WithKey bool   `help:"Also the keyring: whoever has the backup can then read every secret in it."`
	form
}

// Run makes the backup.
func (c *Backup) Run(ctx context.Context, d Desk) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	m, err := backup.Take(ctx, backup.Config{Dir: dir, To: c.To, WithKey: c.WithKey, Program: d.Program()})
	if err != nil {
		return err
	}
	d.Say("%s is in %s: %s, %d bytes", d.Safe(dir), d.Safe(c.To), files(len(m.Files)), m.SizeBytes())
	for _, name := range m.Damaged {
		d.Say("%s is damaged, and is in it as it is: that session has to make it anew, or take it from an older backup", d.Safe(name))
	}
	d.Say("not in it: running commands, folders of the host that sessions work in, and the token of a server")
	if m.HasKey {
		d.Say("the keyring is in it: keep it as you keep the secrets themselves")
	} else if _, err := os.Stat(filepath.Join(dir, backup.KeyringFile)); err == nil {
		d.Say("the keyring is not in it: without %s its secrets cannot be read; keep a copy elsewhere", d.Safe(filepath.Join(dir, backup.KeyringFile)))
	}
	return c.print(d, m)
}

// Restore puts a backup back.
type Restore struct {
	From string `arg:"" help:"The backup." type:"path"`
	form
}

// Run restores.
func (c *Restore) Run(_ context.Context, d Desk) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	m, err := backup.Restore(c.From, dir)
	if err != nil {
		return err
	}
	d.Say("%s has what was backed up on %s: %s, %d bytes", d.Safe(dir), m.CreatedAt.Format("2006-01-02 15:04:05 MST"), files(len(m.Files)), m.SizeBytes())
	d.Say("work that was under way then is taken up by the next serve or run, as after a crash: stop the server that the backup was made of before you start one here")
	return c.print(d, m)
}

// Verify reads everything.
type Verify struct {
	Backup string   `arg:"" optional:"" help:"A backup instead of the data directory." type:"path"`
	Audit  []string `help:"Where the audit log of an org ended once, as it was printed then: it has to have that entry still." placeholder:"ORG:SEQ:HASH" sep:"none"`
	form
}

// Run verifies. What is wrong is an error.
func (c *Verify) Run(ctx context.Context, d Desk) error {
	dir, err := c.Backup, error(nil)
	if dir == "" {
		dir, err = d.Dir()
	}
	if err != nil {
		return err
	}
	rep, err := backup.Verify(ctx, dir, c.Audit...)
	if err != nil {
		return err
	}
	if err := c.print(d, rep); err != nil {
		return err
	}
	if c.Output == "text" {
		fmt.Fprintf(d.Out(), "%d sessions, %d events, %d calls, %d tasks, %d files, %d snapshots, %d session databases, %d blobs, %d audit entries\n",
			rep.Sessions, rep.Events, rep.Calls, rep.Tasks, rep.Files, rep.Snapshots, rep.Databases, rep.Blobs, rep.Audited)
		for _, head := range rep.AuditHeads {
			fmt.Fprintf(d.Out(), "audit log ends with %s:%d:%s\n", d.Safe(head.Org), head.Seq, d.Safe(head.Hash))
		}
		for _, wrong := range rep.Wrong {
			fmt.Fprintf(d.Out(), "wrong: %s\n", d.Safe(wrong))
		}
	}
	if len(rep.Wrong) > 0 {
		return fmt.Errorf("%s is not whole: %d things are wrong with it; keep it as it is, and restore a backup into another directory", dir, len(rep.Wrong))
	}
	d.Say("%s is whole", d.Safe(dir))
	return nil
}

// GC collects garbage.
type GC struct {
	Vacuum bool `help:"Give unused space in the database back to the disk. Nobody may hold the data directory."`
	DryRun bool `help:"Only say what would go."`
	form
}

// Run collects.
func (c *GC) Run(ctx context.Context, d Desk) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	g := backup.Garbage{}
	if hands := d.Hands(); hands.Garbage != nil {
		g = hands.Garbage(dir)
	}
	g.Dir, g.Vacuum, g.DryRun = dir, c.Vacuum, c.DryRun
	found, err := g.Collect(ctx)
	if err != nil {
		return err
	}
	went := "went"
	if c.DryRun {
		went = "would go"
	}
	d.Say("%d run directories, %d folders of session databases, %d blobs of %d bytes and %d unfinished files %s; what is younger than an hour stays",
		found.Runs, found.SQLFolders, found.Blobs, found.BlobBytes, found.Partial, went)
	if c.Vacuum && !c.DryRun {
		d.Say("the database has %d bytes less", found.FreedBytes)
	}
	if err := c.print(d, found); err != nil {
		return err
	}
	if len(found.Kept) > 0 {
		return fmt.Errorf("%w: %d things could not be removed now, and stay: %s", perdure.Unavailable, len(found.Kept), found.Kept[0])
	}
	return nil
}

// RotateKey makes a new key the current one.
type RotateKey struct{}

// Run rotates. Stopped in the middle, it leaves every secret readable, and is run again.
func (c *RotateKey) Run(ctx context.Context, d Desk) error {
	dir, err := d.Dir()
	if err != nil {
		return err
	}
	rotate := d.Hands().RotateKey
	if rotate == nil {
		return fmt.Errorf("%w: this program keeps no secrets", perdure.Unavailable)
	}
	rotated, err := rotate(ctx, dir)
	if err != nil {
		return err
	}
	if rotated.Held {
		d.Say("a new key seals what comes now; whoever holds %s seals the rest under it, within seconds, and says so in its log", d.Safe(dir))
		return nil
	}
	d.Say("%d secrets, keys of providers and tokens are sealed under the new key; the keys before it stay in the keyring, for backups", rotated.Sealed)
	return nil
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}
