package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// restoring is the folder in a data directory in which a backup arrives. Nothing in it is taken for data.
const restoring = "restoring"

// Restore copies a backup into a data directory that is empty or not there, and compares every byte with the manifest. The
// database gets its name last, so a directory that was restored halfway is no data directory. A restore that was
// interrupted is begun anew with the same backup; one that was killed when the database had its name already was complete.
//
// NotFound: from is no backup. Conflict: there is something in the directory. Invalid: the backup was changed since it
// was made, and nothing was restored.
func Restore(from, dir string) (Manifest, error) {
	m, err := Read(from)
	if err != nil {
		return m, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, fmt.Errorf("restore into %s: %w", dir, err)
	}
	err = arrive(from, dir, m)
	if err == nil {
		err = settle(dir, m)
	}
	if err != nil {
		return m, fmt.Errorf("restore into %s: %w", dir, err)
	}
	return m, nil
}

// arrive copies the files, and compares what arrived.
func arrive(from, dir string, m Manifest) error {
	if err := clearHalf(dir, m); err != nil {
		return err
	}
	if err := empty(dir); err != nil {
		return err
	}
	to := filepath.Join(dir, restoring)
	if err := os.RemoveAll(to); err != nil { // of a restore that was interrupted
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := syncFolder(dir); err != nil { // nothing else has its name without it
		return err
	}
	err := copyListed(from, to, m)
	if err == nil {
		err = syncTree(to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(to))
	}
	return nil
}

// clearHalf removes what an interrupted restore gave its name. As long as its folder stands and the database has no name yet,
// nobody worked here since, so what is called as something of the backup came with it.
func clearHalf(dir string, m Manifest) error {
	if about, err := os.Lstat(filepath.Join(dir, restoring)); err != nil || !about.IsDir() {
		return nil // there was none
	}
	if _, err := os.Lstat(filepath.Join(dir, sqlite.DatabaseName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range m.Files {
		top, _, _ := strings.Cut(f.Path, "/")
		if err := os.RemoveAll(filepath.Join(dir, top)); err != nil {
			return err
		}
	}
	return syncFolder(dir) // before the folder goes
}

func copyListed(from, to string, m Manifest) error {
	for _, want := range m.Files {
		name := filepath.FromSlash(want.Path)
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o700); err != nil {
			return err
		}
		err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w backup: %s is not there; nothing was restored", perdure.Invalid, want.Path)
		}
		if err != nil {
			return err
		}
		got, err := measure(to, name)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%w backup: %s was changed since it was made; nothing was restored", perdure.Invalid, want.Path)
		}
	}
	return nil
}

// settle gives what arrived its names, the database's last.
func settle(dir string, m Manifest) error {
	if err := empty(dir); err != nil { // somebody may have begun there meanwhile
		return err
	}
	moved, hasDatabase := map[string]bool{}, false
	for _, f := range m.Files {
		top, _, _ := strings.Cut(f.Path, "/")
		if hasDatabase = hasDatabase || f.Path == sqlite.DatabaseName; f.Path == sqlite.DatabaseName || moved[top] {
			continue
		}
		moved[top] = true
		if err := os.Rename(filepath.Join(dir, restoring, top), filepath.Join(dir, top)); err != nil {
			return err
		}
	}
	if err := syncFolder(dir); err != nil {
		return err
	}
	if hasDatabase {
		if err := os.Rename(filepath.Join(dir, restoring, sqlite.DatabaseName), filepath.Join(dir, sqlite.DatabaseName)); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, restoring)), syncFolder(dir), syncFolder(filepath.Dir(dir)))
}

// empty refuses a directory that has something in it, other than what an interrupted restore left.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != restoring && entry.Name() != "lost+found" { // the one is ours, the other that of a disk's root
			return fmt.Errorf("%w: %s is there already: a backup is only restored into an empty directory; move what is there away, or use --data with another directory", perdure.Conflict, filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}
