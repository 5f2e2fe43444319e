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

// minAge is how old something without an owner must be before it is removed: its row may be about
// to be committed.
const minAge = time.Hour

// Garbage configures Collect. Dir is required.
type Garbage struct {
	Dir string
	// RunName returns the prefix of the run directories of a call, and RemoveRun removes one; it
	// returns an error for one that is still running. If either is nil, runs are kept.
	RunName   func(perdure.CallKey) string
	RemoveRun func(ctx context.Context, dir string) error
	// RemoveHome removes the directory with HOME and /tmp of a session; nil: they are kept.
	RemoveHome func(dir string) error
	// Return unused pages of the database to the disk; no process may use the directory.
	Vacuum bool
	DryRun bool             // only report what would be removed
	Now    func() time.Time // nil: time.Now
}

// Collected says what was removed, or would be.
type Collected struct {
	SQLFolders int      `json:"sql_folders"`
	Homes      int      `json:"homes"`
	Runs       int      `json:"runs"`
	Blobs      int      `json:"blobs"`
	BlobBytes  int64    `json:"blob_bytes"`
	Partial    int      `json:"unfinished_files"` // of writes that a crash interrupted
	FreedBytes int64    `json:"freed_bytes"`      // of the database
	Failures   []string `json:"kept,omitempty"`   // what could not be removed, and why
}

// Collect removes what belongs to no session any more and is older than an hour, while a server may
// use the directory.
//
// Collect lists the files before it reads the rows. So everything listed had its row by then,
// unless it was stored again meanwhile. Storing a blob again renews its file before the row is
// committed, and Collect checks the file's time once more right before it removes it. A blob that
// is renewed between that check and the removal is lost; to rule that out, stop the server.
//
// NotFound: there is no database. Conflict: a different version wrote it, it is a backup, or Vacuum
// is set while a process uses it.
func (g Garbage) Collect(ctx context.Context) (c Collected, err error) {
	if !g.DryRun {
		if err := sqlite.RefuseBackup(g.Dir); err != nil {
			return c, err
		}
	}
	if g.Now == nil {
		g.Now = time.Now
	}
	old := g.Now().Add(-minAge)
	folders, err := g.oldChildren(SQLFolder, old)
	runs, runErr := g.oldChildren(RunFolder, old)
	homes, homeErr := g.homes(old)
	blobs, blobErr := g.blobFiles(old)
	if err = errors.Join(err, runErr, homeErr, blobErr); err != nil {
		return c, fmt.Errorf("list %s: %w", g.Dir, err)
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
	for _, name := range homes {
		if !own.sessions[perdure.SessionID(name)] && g.RemoveHome != nil {
			g.remove(&c, &c.Homes, g.RemoveHome, path.Join(HomeFolder, name))
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
				continue // stored again meanwhile
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
			c.Failures = append(c.Failures, name+": "+err.Error())
			return
		}
	}
	*n++
}

// ownedData is what the rows refer to.
type ownedData struct {
	sessions map[perdure.SessionID]bool
	runs     map[string]bool // nil: runs are kept
	blobs    map[string]bool // only the listed ones, by SHA-256
}

func (g Garbage) owned(ctx context.Context, blobs []File) (o ownedData, err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: g.Dir, ReadOnly: true})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	err = st.View(ctx, func(r store.Reader) error {
		sessions, err := r.Sessions().List(store.SessionFilter{})
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
				calls, err := r.Calls().List(store.CallFilter{Session: id})
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
			if o.blobs[sum], err = r.Images().HasBlob(sum); err != nil {
				return err
			}
		}
		return nil
	})
	return o, err
}

// homes lists the homes that were created before a time. What commands wrote there is not looked
// at: it may be much, and as old as they like.
func (g Garbage) homes(before time.Time) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(g.Dir, HomeFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if about, err := entry.Info(); err == nil && entry.IsDir() && about.ModTime().Before(before) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// oldChildren lists the directories in a folder that were last written before a time, their
// contents included.
func (g Garbage) oldChildren(folder string, before time.Time) (names []string, err error) {
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
		if statErr != nil || walkErr != nil { // it was removed, or cannot be read: keep it
			continue
		}
		if old {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// blobFiles lists the files in the blob folder that were written before a time.
func (g Garbage) blobFiles(before time.Time) (files []File, err error) {
	err = walk(filepath.Join(g.Dir, BlobFolder), func(_, name string, about fs.FileInfo) error {
		if about.ModTime().Before(before) {
			files = append(files, File{Path: path.Join(BlobFolder, name), SizeBytes: about.Size()})
		}
		return nil
	})
	return files, err
}

// vacuum compacts the database and returns how many bytes were freed.
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
