package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/perdure/perdure"
)

const (
	// BackupManifest is the name of the file that makes a folder a backup.
	BackupManifest = "manifest.json"
	// BackupFormat is what the manifest of a backup calls itself.
	BackupFormat = "perdure-backup"
	// manifestHead is how many bytes of a manifest are read: it says first what it is.
	manifestHead = 4 << 10
)

// BackupError says that a folder is a backup, where a data directory is wanted that can be written. It is a Conflict.
type BackupError struct {
	Dir string
}

// Error says what the folder is, and that it stays so.
func (e *BackupError) Error() string {
	return fmt.Sprintf("%s: %s is a backup, and stays as it was made: restore it into an empty directory, and work there", perdure.Conflict, e.Dir)
}

// Unwrap returns the kind.
func (e *BackupError) Unwrap() error { return perdure.Conflict }

// Backup returns the folder, for the advice of a command line.
func (e *BackupError) Backup() string { return e.Dir }

// RefuseBackup refuses to write in a folder that holds the manifest of a backup: one byte more in it, and it would never be
// restored again. The manifest is known by its head alone, so that a damaged one, and one of a later version, protect the
// folder as well. Open asks by itself, unless it only reads; a caller that writes beside the database asks here.
//
// The error is an [*BackupError]. Storage: the manifest cannot be read, so that nobody knows.
func RefuseBackup(dir string) error {
	file, err := os.Open(filepath.Join(dir, BackupManifest))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: look whether %s is a backup: %w", perdure.Storage, dir, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	head, err := io.ReadAll(io.LimitReader(file, manifestHead))
	if err != nil {
		return fmt.Errorf("%w: look whether %s is a backup: %w", perdure.Storage, dir, err)
	}
	if bytes.Contains(head, []byte(`"`+BackupFormat+`"`)) {
		return &BackupError{Dir: dir}
	}
	return nil
}
