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

// restoring is the directory inside a data directory that receives the files of a backup. Its
// content is never used as data.
const restoring = "restoring"

// Restore copies a backup into an empty or new data directory, and compares every byte with the
// manifest. The database gets its name last, so a half restored directory is not a data directory.
// An interrupted restore can be repeated with the same backup. One that was killed after the
// database got its name was complete.
//
// NotFound: from is not a backup. Conflict: the directory is not empty. Invalid: the backup was
// changed after it was made, and nothing was restored.
func Restore(from, dir string) (Manifest, error) {
	m, err := Read(from)
	if err != nil {
		return m, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, fmt.Errorf("restore into %s: %w", dir, err)
	}
	err = copyIn(from, dir, m)
	if err == nil {
		err = moveIn(dir, m)
	}
	if err != nil {
		return m, fmt.Errorf("restore into %s: %w", dir, err)
	}
	return m, nil
}

// copyIn copies the files into the restoring directory and compares them with the manifest.
func copyIn(from, dir string, m Manifest) error {
	if err := clearInterrupted(dir, m); err != nil {
		return err
	}
	if err := checkEmpty(dir); err != nil {
		return err
	}
	to := filepath.Join(dir, restoring)
	if err := os.RemoveAll(to); err != nil { // left by an interrupted restore
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := syncFolder(dir); err != nil { // restoring must be durable before any other name appears
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

// clearInterrupted removes what an interrupted restore had moved to its final name. As long as the
// restoring directory exists and the database does not, nobody has used this directory, so
// everything named like a part of the backup came with it.
func clearInterrupted(dir string, m Manifest) error {
	if about, err := os.Lstat(filepath.Join(dir, restoring)); err != nil || !about.IsDir() {
		return nil // no interrupted restore
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
	return syncFolder(dir) // before restoring is removed
}

func copyListed(from, to string, m Manifest) error {
	for _, want := range m.Files {
		name := filepath.FromSlash(want.Path)
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o700); err != nil {
			return err
		}
		err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w backup: %s is missing; nothing was restored", perdure.Invalid, want.Path)
		}
		if err != nil {
			return err
		}
		got, err := measure(to, name)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%w backup: %s was changed after the backup was made; nothing was restored", perdure.Invalid, want.Path)
		}
	}
	return nil
}

// moveIn moves the files to their final names, the database last.
func moveIn(dir string, m Manifest) error {
	if err := checkEmpty(dir); err != nil { // another process may have created something meanwhile
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

// checkEmpty refuses a directory that contains anything but an interrupted restore.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		// Restoring is ours, and a file system's root has lost+found.
		if entry.Name() != restoring && entry.Name() != "lost+found" {
			return fmt.Errorf("%w: %s exists: a backup is only restored into an empty directory; move the existing files away, or use another directory", perdure.Conflict, filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}
