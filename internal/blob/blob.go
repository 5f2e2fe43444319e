// Package blob stores immutable bytes outside of the database: one file for each content, named by
// its SHA-256.
//
// It may import the root only. The one thing to know: a blob is durable before its name is
// returned, so it is written before the row that refers to it is committed. A crash in between
// leaves a blob without a reference, which a later collection removes once it is old enough.
package blob

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

const (
	folder     = "blobs"
	tempPrefix = "new-" // prefix of files that are still being written
)

var (
	hashPattern   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
	folderPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{2}$`) })
)

// Store holds blobs in DIR/blobs/<two digits>/<SHA-256>. Safe for concurrent use in one process.
type Store struct {
	root *os.Root
	mu   sync.RWMutex // held for writing by a removal, so that it cannot remove a blob that is being put
}

// Open opens the blobs of a data directory and creates their folder if necessary. Storage: that
// failed. The caller closes the Store.
func Open(dir string) (*Store, error) {
	location := path.Join(dir, folder)
	if err := os.MkdirAll(location, 0o700); err != nil {
		return nil, fmt.Errorf("%w: create blob folder: %w", perdure.Storage, err)
	}
	root, err := os.OpenRoot(location)
	if err != nil {
		return nil, fmt.Errorf("%w: open blob folder: %w", perdure.Storage, err)
	}
	s := &Store{root: root}
	above, err := os.OpenRoot(dir)
	if err == nil {
		err = errors.Join(syncFile(above, "."), above.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: sync blob folder: %w", perdure.Storage, err), root.Close())
	}
	return s, nil
}

// Close closes the folder.
func (s *Store) Close() error { return s.root.Close() }

// Put stores content and returns its SHA-256 once it is durable. Content that exists already is not
// written again, unless it is damaged; it counts as new. Storage: it could not be written; then no
// damaged file with its name was left by this call.
func (s *Store) Put(content []byte) (string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	_, err := s.read(name)
	if err == nil {
		err = s.renew(name)
	} else {
		err = s.write(name, content)
	}
	if err != nil {
		return "", fmt.Errorf("%w: put blob %s: %w", perdure.Storage, name, err)
	}
	return name, nil
}

// Get returns a blob. NotFound: it does not exist. Storage: it cannot be read, or its content does
// not match its name.
func (s *Store) Get(name string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	content, err := s.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("blob %s: %w", name, perdure.NotFound)
	case err != nil:
		return nil, fmt.Errorf("%w: get blob %s: %w", perdure.Storage, name, err)
	}
	return content, nil
}

// Remove removes a blob that was last put before a time, and reports whether it did. The time
// protects a blob that was put again after the caller checked that nothing refers to it.
func (s *Store) Remove(name string, before time.Time) (bool, error) {
	if !hashPattern().MatchString(name) {
		return false, fmt.Errorf("remove blob %q: %w: not a SHA-256", name, perdure.Invalid)
	}
	return s.remove(fileOf(name), before)
}

func (s *Store) remove(file string, before time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	about, err := s.root.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !about.ModTime().Before(before):
		return false, nil
	case err == nil:
		err = s.root.Remove(file)
	}
	if err != nil {
		return false, fmt.Errorf("%w: remove blob %s: %w", perdure.Storage, path.Base(file), err)
	}
	return true, nil
}

// Blob describes a blob.
type Blob struct {
	SHA256    string
	SizeBytes int64
	PutAt     time.Time // when it was last put
}

// Walk calls fn for every blob, in no particular order, and stops at its first error. Blobs may
// appear and disappear in the meantime. Unfinished writes that started before a time are removed on
// the way; zero: none are.
func (s *Store) Walk(before time.Time, fn func(Blob) error) error {
	entries, err := s.list(".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch {
		case strings.HasPrefix(entry.Name(), tempPrefix):
			if _, err := s.remove(entry.Name(), before); err != nil {
				return err
			}
		case entry.IsDir() && folderPattern().MatchString(entry.Name()):
			if err := s.walk(entry.Name(), fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) walk(dir string, fn func(Blob) error) error {
	entries, err := s.list(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		about, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil &&
			(!about.Mode().IsRegular() || !hashPattern().MatchString(entry.Name())) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: list blobs: %w", perdure.Storage, err)
		}
		if err := fn(Blob{SHA256: entry.Name(), SizeBytes: about.Size(), PutAt: about.ModTime()}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) list(dir string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: list blobs: %w", perdure.Storage, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("%w: list blobs: %w", perdure.Storage, err)
	}
	return entries, nil
}

// read returns the file with a name, if its content matches the name.
func (s *Store) read(name string) ([]byte, error) {
	if !hashPattern().MatchString(name) {
		return nil, fs.ErrNotExist
	}
	content, err := s.root.ReadFile(fileOf(name))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != name {
		return nil, errors.New("the file is damaged: its content does not match its name")
	}
	return content, nil
}

// renew marks an existing blob as new, and makes it durable, even if another process wrote it.
func (s *Store) renew(name string) error {
	now := time.Now()
	if err := s.root.Chtimes(fileOf(name), now, now); err != nil {
		return err
	}
	return errors.Join(syncFile(s.root, fileOf(name)), syncFile(s.root, path.Dir(fileOf(name))), syncFile(s.root, "."))
}

// write writes a temporary file and renames it, so that the blob is either complete or absent.
func (s *Store) write(name string, content []byte) (err error) {
	tempFile := tempPrefix + rand.Text()
	defer func() {
		if err != nil {
			_ = s.root.Remove(tempFile) // it may have been renamed already, or never created
		}
	}()
	f, err := s.root.OpenFile(tempFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	file := fileOf(name)
	if err := s.root.Mkdir(path.Dir(file), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.root.Rename(tempFile, file); err != nil {
		return err
	}
	return errors.Join(syncFile(s.root, path.Dir(file)), syncFile(s.root, "."))
}

// syncFile syncs a file or folder.
func syncFile(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func fileOf(name string) string { return name[:2] + "/" + name }
