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

// keyFile is the file of a ring. The keys stand in the order in which they were made.
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
	Key       string    `json:"key"` // in base64
}

// stamp tells one state of the file from another: it is replaced, never written into.
type stamp struct {
	inode uint64 // 0: the system has none
	size  int64
	at    time.Time
}

func stampOf(path string) (stamp, error) {
	found, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{inode: inodeOf(found), size: found.Size(), at: found.ModTime()}, nil
}

// read reads a ring. NotFound: there is no file. Invalid: others may read it, or it is no ring.
func read(path string) ([]key, stamp, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stamp{}, fmt.Errorf("%w: there is no such file", perdure.NotFound)
	}
	if err != nil {
		return nil, stamp{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	defer file.Close()
	found, err := file.Stat()
	if err != nil {
		return nil, stamp{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	if !found.Mode().IsRegular() {
		return nil, stamp{}, fmt.Errorf("%w keyring: it is no plain file", perdure.Invalid)
	}
	if others := found.Mode().Perm() &^ ownerOnly; others != 0 && hasModes {
		return nil, stamp{}, fmt.Errorf("%w keyring: others may read it (its mode is %04o): find out who did, then run chmod 600 %s", perdure.Invalid, found.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, stamp{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	defer clear(text)
	keys, err := parse(text)
	if err != nil {
		return nil, stamp{}, err
	}
	return keys, stamp{inode: inodeOf(found), size: found.Size(), at: found.ModTime()}, nil
}

// parse reads the text of a ring. Invalid: what is wrong with it; nothing of it is in the error.
func parse(text []byte) ([]key, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w keyring: it is over %d bytes", perdure.Invalid, maxFile)
	}
	var f keyFile
	if err := perdure.DecodeJSON(text, &f); err != nil {
		return nil, fmt.Errorf("%w keyring: it is not the JSON of one: restore it from a copy", perdure.Invalid)
	}
	if f.Format != fileFormat || f.Version != fileVersion {
		return nil, fmt.Errorf("%w keyring: it says that it is %.40q, version %d: this program reads %s, version %d", perdure.Invalid, f.Format, f.Version, fileFormat, fileVersion)
	}
	known := map[string]bool{}
	var keys []key
	for i, line := range f.Keys {
		bytes, err := base64.StdEncoding.Strict().DecodeString(line.Key)
		last := i == len(f.Keys)-1
		if err != nil || len(bytes) != keyBytes || line.ID == "" || len(line.ID) > maxKeyID || known[line.ID] || last == (line.ID != f.Current) || last != line.RetiredAt.IsZero() {
			return nil, fmt.Errorf("%w keyring: its key %d is none, or it does not say which key is the current one: restore it from a copy", perdure.Invalid, i+1)
		}
		one := key{id: line.ID, made: line.CreatedAt, retired: line.RetiredAt, bytes: materialOf(bytes)}
		known[line.ID] = true
		keys = append(keys, one)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w keyring: it has no key: restore it from a copy", perdure.Invalid)
	}
	return keys, nil
}

// write replaces the file, whole or not at all, and returns when the new one is durable.
func write(path string, keys []key) (err error) {
	f := keyFile{Format: fileFormat, Version: fileVersion, Current: keys[len(keys)-1].id}
	for _, k := range keys {
		f.Keys = append(f.Keys, keyLine{ID: k.id, CreatedAt: k.made, RetiredAt: k.retired, Key: base64.StdEncoding.EncodeToString(k.bytes.bytes[:])})
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
			_ = os.Remove(next.Name()) // it has keys that were never used
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

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func marshalStats(stats []KeyStat) ([]byte, error) { return json.Marshal(stats) }
