package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// LastFile is the file of a data directory that names its last backup, for people. It is not backed
// up.
const LastFile = "last-backup.json"

// Last is the last backup of a data directory.
type Last struct {
	CreatedAt time.Time `json:"created_at"` // when the copy was started
	To        string    `json:"to"`         // its directory at that time
	SizeBytes int64     `json:"size_bytes"`
}

// ReadLast returns the last backup of a data directory. NotFound: none is known. Invalid: the file
// cannot be parsed.
func ReadLast(dir string) (last Last, err error) {
	text, err := os.ReadFile(filepath.Join(dir, LastFile))
	if errors.Is(err, fs.ErrNotExist) {
		return last, fmt.Errorf("%w: no backup of %s is known", perdure.NotFound, dir)
	}
	if err == nil {
		err = perdure.DecodeJSON(text, &last)
	}
	if err != nil {
		return last, fmt.Errorf("%w file %s: %w", perdure.Invalid, filepath.Join(dir, LastFile), err)
	}
	return last, nil
}

// WriteLast records the last backup of a data directory. A crash may lose it. A copy of a backup is
// not recorded, because a file more in the directory would make the backup impossible to restore.
func WriteLast(dir string, last Last) error {
	if err := sqlite.RefuseBackup(dir); err != nil {
		if errors.Is(err, perdure.Conflict) {
			return nil
		}
		return err
	}
	text, err := json.MarshalIndent(last, "", "  ")
	if err != nil {
		return err
	}
	fresh, err := os.CreateTemp(dir, LastFile+".*")
	if err != nil {
		return err
	}
	_, err = fresh.Write(append(text, '\n'))
	if err = errors.Join(err, fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), filepath.Join(dir, LastFile))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(fresh.Name()))
	}
	return err
}
