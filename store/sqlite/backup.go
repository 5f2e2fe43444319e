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
	// BackupManifest is the name of the file that marks a folder as a backup.
	BackupManifest = "manifest.json"
	// BackupFormat is the value of the format field in the manifest of a backup.
	BackupFormat = "perdure-backup"
	// manifestHead is how many bytes of a manifest are read. The format field comes first.
	manifestHead = 4 << 10
)

// BackupError reports that a folder is a backup, where a writable data directory is needed. It is a
// Conflict.
type BackupError struct {
	Dir string
}

// Error names the folder and says how to use the backup.
func (e *BackupError) Error() string {
	return fmt.Sprintf("%s: %s is a backup and must not be changed: restore it into an empty directory and use that",
		perdure.Conflict, e.Dir)
}

// Unwrap returns perdure.Conflict.
func (e *BackupError) Unwrap() error { return perdure.Conflict }

// Backup returns the folder, so that a command can suggest how to restore it.
func (e *BackupError) Backup() string { return e.Dir }

// RefuseBackup returns an error if a folder holds the manifest of a backup. One more byte in the
// folder would make the backup impossible to restore. Only the head of the manifest is read, so a
// damaged manifest and one of a later version protect the folder too. Open calls RefuseBackup
// itself, unless it opens for reading only; a caller that writes other files into the folder calls
// it as well.
//
// The error is a [*BackupError], or Storage if the manifest is not readable.
func RefuseBackup(dir string) error {
	file, err := os.Open(filepath.Join(dir, BackupManifest))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: check whether %s is a backup: %w", perdure.Storage, dir, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	head, err := io.ReadAll(io.LimitReader(file, manifestHead))
	if err != nil {
		return fmt.Errorf("%w: check whether %s is a backup: %w", perdure.Storage, dir, err)
	}
	if bytes.Contains(head, []byte(`"`+BackupFormat+`"`)) {
		return &BackupError{Dir: dir}
	}
	return nil
}
