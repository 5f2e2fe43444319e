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

// suffix ends the names of the files.
const suffix = ".db"

// fileOf is the file of a database, below the folder of the Store. Both names were checked.
func fileOf(id perdure.SessionID, name string) string { return string(id) + "/" + name + suffix }

// sizes returns the databases of a session with their sizes in bytes. A session without a folder has none.
func (s *Store) sizes(id perdure.SessionID) (map[string]int64, error) {
	found := map[string]int64{}
	folder, err := s.root.Open(string(id))
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, unreadable(id, err)
	}
	defer folder.Close()
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return nil, unreadable(id, err)
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), suffix)
		if !ok || !entry.Type().IsRegular() || !databaseNames().MatchString(name) {
			continue
		}
		about, err := entry.Info()
		if err != nil {
			return nil, unreadable(id, err)
		}
		found[name] = about.Size()
	}
	return found, nil
}

// makeFolder makes a folder where it is missing, and those above it, durably.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if above == dir {
		return fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	if err := makeFolder(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable(os.Open(above))
}

// durable makes the names in a folder durable, and closes it.
func durable(folder *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// make makes the empty file of a database, and before that the folder of its session, durably: where there is a file, the
// folder is so. The names in it are synced by the driver with every transaction.
func (s *Store) make(id perdure.SessionID, name string) error {
	if err := s.root.Mkdir(string(id), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return unreadable(id, err)
	}
	if folder, err := s.root.Lstat(string(id)); err != nil || !folder.IsDir() {
		return unreadable(id, errors.Join(errors.New("its place is taken by something that is no folder"), err))
	}
	if err := durable(s.root.Open(".")); err != nil {
		return unreadable(id, err)
	}
	file, err := s.root.OpenFile(fileOf(id, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return unreadable(id, err)
	}
	return file.Close()
}

// unmake removes a database that was made for a statement which failed. There is nothing in it.
func (s *Store) unmake(id perdure.SessionID, name string) { _ = s.root.Remove(fileOf(id, name)) }

func unreadable(id perdure.SessionID, err error) error {
	return fmt.Errorf("%w: the databases of session %s: %w", perdure.Storage, id, err)
}
