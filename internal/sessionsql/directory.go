package sessionsql

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
)

// suffix is the file name extension of databases.
const suffix = ".db"

// fileOf returns the path of a database file relative to Config.Dir. The caller has validated both
// names.
func fileOf(id perdure.SessionID, name string) string { return string(id) + "/" + name + suffix }

// sizes returns the databases of a session with their sizes in bytes. A session without a directory
// has none.
func (s *Store) sizes(id perdure.SessionID) (map[string]int64, error) {
	found := map[string]int64{}
	folder, err := s.root.Open(string(id))
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, storageError(id, err)
	}
	defer folder.Close()
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return nil, storageError(id, err)
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), suffix)
		if !ok || !entry.Type().IsRegular() || !databaseNamePattern().MatchString(name) {
			continue
		}
		about, err := entry.Info()
		if err != nil {
			return nil, storageError(id, err)
		}
		found[name] = about.Size()
	}
	return found, nil
}

// makeDir creates a directory and its missing parents, durably.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if above == dir {
		return fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	if err := makeDir(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(os.Open(above))
}

// syncDir syncs the entries of a directory and closes it.
func syncDir(folder *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// createFile creates the empty file of a database, and before it the session's directory, durably:
// where a database file exists, its directory survives a crash. The driver syncs the directory's
// entries with every transaction.
func (s *Store) createFile(id perdure.SessionID, name string) error {
	if err := s.root.Mkdir(string(id), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return storageError(id, err)
	}
	if folder, err := s.root.Lstat(string(id)); err != nil || !folder.IsDir() {
		return storageError(id, errors.Join(errors.New("the path exists and is not a directory"), err))
	}
	if err := syncDir(s.root.Open(".")); err != nil {
		return storageError(id, err)
	}
	file, err := s.root.OpenFile(fileOf(id, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return storageError(id, err)
	}
	return file.Close()
}

// removeFile removes a database that was created for a statement that failed. It is empty.
func (s *Store) removeFile(id perdure.SessionID, name string) { _ = s.root.Remove(fileOf(id, name)) }

func storageError(id perdure.SessionID, err error) error {
	return fmt.Errorf("%w: databases of session %s: %w", perdure.Storage, id, err)
}
