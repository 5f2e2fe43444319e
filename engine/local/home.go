package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
)

// homeFile is the file with the id of a data directory.
const homeFile = "home"

// homeBytes is more than a home file ever has.
const homeBytes = 128

// openHome returns the id of a data directory, and creates it once. Of several processes that
// create it at the same time, all get the same one. Invalid: the file is not a home file.
func openHome(dir string) (perdure.HomeID, error) {
	path := filepath.Join(dir, homeFile)
	id, err := readHome(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createHome(dir, path); err == nil {
			id, err = readHome(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("read the id of the data directory: %w", err)
	}
	return id, nil
}

// readHome reads a home file.
func readHome(path string) (perdure.HomeID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	var text []byte
	if info.Mode().IsRegular() && info.Size() <= homeBytes {
		if text, err = os.ReadFile(path); err != nil {
			return "", err
		}
	}
	id, err := perdure.ParseID[perdure.HomeID](strings.TrimSuffix(string(text), "\n"))
	if err != nil {
		return "", fmt.Errorf("%w home file %s: it must be one line, home_ and 32 hexadecimal digits. Restore it from a copy. If there is none, delete it: "+
			"a new id is created, and commands that were started under the former id are no longer adopted", perdure.Invalid, path)
	}
	return id, nil
}

// createHome creates the file durably, and leaves one alone that exists already.
func createHome(dir, path string) (err error) {
	f, err := os.CreateTemp(dir, "."+homeFile+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it may be renamed already
	id := perdure.FormatID[perdure.HomeID](uuid.New())
	_, err = f.WriteString(string(id) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link appears whole or not at all, and replaces no other file. Some file systems have none.
	err = os.Link(f.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(f.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
