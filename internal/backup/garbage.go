package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// youth is how long something is left alone that belongs to nobody: its row may be about to be committed.
const youth = time.Hour

// Garbage says how what belongs to nobody is found and removed. Dir is required.
type Garbage struct {
	Dir string
	// RunName is how the run directories of a call begin, and RemoveRun removes one; it leaves what still lives, with an
	// error. Either nil: runs are left alone.
	RunName   func(perdure.CallKey) string
	RemoveRun func(ctx context.Context, dir string) error
	Vacuum    bool             // give unused pages of the database back to the disk; nobody may hold the directory
	DryRun    bool             // only say what would go
	Now       func() time.Time // nil: time.Now
}

// Collected is what went, or would.
type Collected struct {
	SQLFolders int      `json:"sql_folders"`
	Runs       int      `json:"runs"`
	Blobs      int      `json:"blobs"`
	BlobBytes  int64    `json:"blob_bytes"`
	Partial    int      `json:"unfinished_files"` // of writes that a crash ended
	FreedBytes int64    `json:"freed_bytes"`      // of the database
	Kept       []string `json:"kept,omitempty"`   // what could not be removed, and why
}

// Collect removes what belongs to no session any more and is older than an hour, beside whoever holds the directory. What is
// there is listed before the rows are read, so whatever is listed had its row by then, unless it was put again meanwhile: a
// blob that is put again is renewed before its row is committed, and looked at once more right before it is removed. One that
// is renewed in the moment between that look and the removal would go all the same; whoever wants to be sure of that, too,
// stops the server.
//
// NotFound: there is no database. Conflict: another version wrote it, it is to be vacuumed while somebody holds it, or it is a
// backup.
func (g Garbage) Collect(ctx context.Context) (c Collected, err error) {
	if !g.DryRun {
		if err := sqlite.RefuseBackup(g.Dir); err != nil {
			return c, err
		}
	}
	if g.Now == nil {
		g.Now = time.Now
	}
	old := g.Now().Add(-youth)
	folders, err := g.children(SQLFolder, old)
	runs, runErr := g.children(RunFolder, old)
	blobs, blobErr := g.blobFiles(old)
	if err = errors.Join(err, runErr, blobErr); err != nil {
		return c, fmt.Errorf("look into %s: %w", g.Dir, err)
	}
	own, err := g.owned(ctx, blobs)
	if err != nil {
		return c, err
	}
	for _, name := range folders {
		if !own.sessions[perdure.SessionID(name)] {
			g.remove(&c, &c.SQLFolders, func(dir string) error { return os.RemoveAll(dir) }, path.Join(SQLFolder, name))
		}
	}
	for _, name := range runs {
		call, _, _ := strings.Cut(name, "-")
		if own.runs != nil && !own.runs[call] && g.RemoveRun != nil {
			g.remove(&c, &c.Runs, func(dir string) error { return g.RemoveRun(ctx, dir) }, path.Join(RunFolder, name))
		}
	}
	for _, blob := range blobs {
		switch before := c.Blobs; {
		case !isBlob(blob.Path):
			g.remove(&c, &c.Partial, os.Remove, blob.Path)
		case !own.blobs[path.Base(blob.Path)]:
			if about, err := os.Lstat(filepath.Join(g.Dir, filepath.FromSlash(blob.Path))); err == nil && !about.ModTime().Before(old) {
				continue // put again meanwhile
			}
			g.remove(&c, &c.Blobs, os.Remove, blob.Path)
			c.BlobBytes += int64(c.Blobs-before) * blob.SizeBytes
		}
	}
	if g.Vacuum && !g.DryRun {
		c.FreedBytes, err = g.vacuum(ctx)
	}
	return c, err
}

// remove removes one thing, and counts it.
func (g Garbage) remove(c *Collected, n *int, do func(string) error, name string) {
	if !g.DryRun {
		if err := do(filepath.Join(g.Dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Kept = append(c.Kept, name+": "+err.Error())
			return
		}
	}
	*n++
}

// owned is what rows speak for.
type owned struct {
	sessions map[perdure.SessionID]bool
	runs     map[string]bool // nil: nobody looks
	blobs    map[string]bool // of those that were listed, by SHA-256
}

func (g Garbage) owned(ctx context.Context, blobs []File) (o owned, err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: g.Dir, ReadOnly: true})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return o, st.View(ctx, func(r store.Reader) error {
		sessions, err := r.Sessions(store.SessionFilter{})
		if err != nil {
			return err
		}
		o.sessions = map[perdure.SessionID]bool{}
		for _, s := range sessions {
			o.sessions[s.ID] = true
		}
		if g.RunName != nil {
			o.runs = map[string]bool{}
			for id := range o.sessions {
				calls, err := r.Calls(store.CallFilter{Session: id})
				if err != nil {
					return err
				}
				for _, call := range calls {
					o.runs[g.RunName(call.Key)] = true
				}
			}
		}
		o.blobs = map[string]bool{}
		for _, blob := range blobs {
			sum := path.Base(blob.Path)
			if o.blobs[sum], err = r.HasBlob(sum); err != nil {
				return err
			}
		}
		return nil
	})
}

// children lists what is directly in a folder and was last written before a moment, all that is in it counted.
func (g Garbage) children(folder string, before time.Time) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(g.Dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		old := true
		about, statErr := entry.Info()
		if statErr == nil {
			old = about.ModTime().Before(before)
		}
		walkErr := walk(filepath.Join(g.Dir, folder, entry.Name()), func(_, _ string, about fs.FileInfo) error {
			old = old && about.ModTime().Before(before)
			return nil
		})
		if statErr != nil || walkErr != nil { // it went, or cannot be read: leave it alone
			continue
		}
		if old {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// blobFiles lists the files of the blobs' folder that were written before a moment.
func (g Garbage) blobFiles(before time.Time) (files []File, err error) {
	err = walk(filepath.Join(g.Dir, BlobFolder), func(_, name string, about fs.FileInfo) error {
		if about.ModTime().Before(before) {
			files = append(files, File{Path: path.Join(BlobFolder, name), SizeBytes: about.Size()})
		}
		return nil
	})
	return files, err
}

// vacuum compacts the database and returns by how much it shrank.
func (g Garbage) vacuum(ctx context.Context) (int64, error) {
	file := filepath.Join(g.Dir, sqlite.DatabaseName)
	before, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	if err := sqlite.Compact(ctx, sqlite.Config{Dir: g.Dir, Program: "perdure admin gc"}); err != nil {
		return 0, err
	}
	after, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return before.Size() - after.Size(), nil
}
