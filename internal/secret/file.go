package secret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
)

const (
	fileFormat  = "perdure-keyring"
	fileVersion = 1
	ownerOnly   = 0o600
	maxFile     = 1 << 20 // bytes; a key takes about 150
)

// keyFile is the file of a keyring. The keys are in the order in which they were created.
type keyFile struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Current string    `json:"current"`
	Keys    []keyLine `json:"keys"`
}

type keyLine struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	RetiredAt time.Time `json:"retired_at,omitzero"`
	Key       string    `json:"key"` // base64
}

// fileStamp identifies one state of the file: the file is always replaced, never modified in place.
type fileStamp struct {
	inode uint64 // 0: the system has no inodes
	size  int64
	at    time.Time
}

func stampOf(path string) (fileStamp, error) {
	found, err := os.Stat(path)
	if err != nil {
		return fileStamp{}, err
	}
	return fileStamp{inode: inodeOf(found), size: found.Size(), at: found.ModTime()}, nil
}

// read reads a keyring. NotFound: there is no file. Invalid: others may read the file, or it is not
// a keyring.
func read(path string) ([]key, fileStamp, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fileStamp{}, fmt.Errorf("%w: no such file", perdure.NotFound)
	}
	if err != nil {
		return nil, fileStamp{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	defer file.Close()
	found, err := file.Stat()
	if err != nil {
		return nil, fileStamp{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	if !found.Mode().IsRegular() {
		return nil, fileStamp{}, fmt.Errorf("%w keyring: not a regular file", perdure.Invalid)
	}
	if others := found.Mode().Perm() &^ ownerOnly; others != 0 && hasModes {
		return nil, fileStamp{}, fmt.Errorf("%w keyring: others may read the file (mode %04o): check who has read it, then run chmod 600 %s", perdure.Invalid, found.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fileStamp{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	defer clear(text)
	keys, err := parse(text)
	if err != nil {
		return nil, fileStamp{}, err
	}
	return keys, fileStamp{inode: inodeOf(found), size: found.Size(), at: found.ModTime()}, nil
}

// parse parses the text of a keyring. The error is Invalid and contains nothing of the text.
func parse(text []byte) ([]key, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w keyring: larger than %d bytes", perdure.Invalid, maxFile)
	}
	var f keyFile
	if err := perdure.DecodeJSON(text, &f); err != nil {
		return nil, fmt.Errorf("%w keyring: not the JSON of a keyring: restore the file from a backup", perdure.Invalid)
	}
	if f.Format != fileFormat || f.Version != fileVersion {
		return nil, fmt.Errorf("%w keyring: format %.40q, version %d: this program reads %s, version %d", perdure.Invalid, f.Format, f.Version, fileFormat, fileVersion)
	}
	known := map[string]bool{}
	var keys []key
	for i, line := range f.Keys {
		bytes, err := base64.StdEncoding.Strict().DecodeString(line.Key)
		last := i == len(f.Keys)-1
		if err != nil || len(bytes) != keyBytes || line.ID == "" || len(line.ID) > maxKeyID || known[line.ID] || last == (line.ID != f.Current) || last != line.RetiredAt.IsZero() {
			return nil, fmt.Errorf("%w keyring: key %d is malformed, or the current key is not clear: restore the file from a backup", perdure.Invalid, i+1)
		}
		one := key{id: line.ID, created: line.CreatedAt, retired: line.RetiredAt, bytes: materialOf(bytes)}
		known[line.ID] = true
		keys = append(keys, one)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w keyring: no key: restore the file from a backup", perdure.Invalid)
	}
	return keys, nil
}

// write replaces the file atomically, and returns when the new one is durable.
func write(path string, keys []key) (err error) {
	f := keyFile{Format: fileFormat, Version: fileVersion, Current: keys[len(keys)-1].id}
	for _, k := range keys {
		f.Keys = append(f.Keys, keyLine{ID: k.id, CreatedAt: k.created, RetiredAt: k.retired, Key: base64.StdEncoding.EncodeToString(k.bytes.bytes[:])})
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	defer clear(text)
	dir := filepath.Dir(path)
	next, err := os.CreateTemp(dir, ".keyring-") // with mode 0600
	if err != nil {
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name()) // its keys were never used
			err = fmt.Errorf("%w: %w", perdure.Unavailable, err)
		}
	}()
	_, err = next.Write(append(text, '\n'))
	err = errors.Join(err, next.Chmod(ownerOnly), next.Sync(), next.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func marshalStats(stats []KeyStat) ([]byte, error) { return json.Marshal(stats) }
