// Package blob keeps bytes outside of the store, by what they are: a file for each content, named by its SHA-256.
//
// It may import the root only. The one thing to know: a blob is durable before anybody is told its name, so it is written
// before the row that names it is committed; what a crash leaves in between is a blob that nobody names, which whoever
// collects them removes once it is old.
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
	folder = "blobs"
	temp   = "new-" // begins the names of files that are being written
)

var (
	hashes  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
	folders = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{2}$`) })
)

// Store keeps blobs in DIR/blobs/<two digits>/<SHA-256>. Safe for concurrent use, by one process.
type Store struct {
	root *os.Root
	mu   sync.RWMutex // held for writing by what removes, so that nothing goes that is just put
}

// Open opens the blobs of a data directory, whose folder is made where it is missing. Storage: it cannot be. The caller closes
// the Store.
func Open(dir string) (*Store, error) {
	place := path.Join(dir, folder)
	if err := os.MkdirAll(place, 0o700); err != nil {
		return nil, fmt.Errorf("%w: make the folder of blobs: %w", perdure.Storage, err)
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return nil, fmt.Errorf("%w: open the folder of blobs: %w", perdure.Storage, err)
	}
	s := &Store{root: root}
	above, err := os.OpenRoot(dir)
	if err == nil {
		err = errors.Join(durable(above, "."), above.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: sync the folder of blobs: %w", perdure.Storage, err), root.Close())
	}
	return s, nil
}

// Close lets the folder go.
func (s *Store) Close() error { return s.root.Close() }

// Put keeps content and returns its SHA-256 once it is durable. What is there already is not written again, unless it is
// damaged, and counts as new. Storage: it could not be written; nothing is there then that has its name and is not whole.
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

// Get returns a blob. NotFound: it is not there. Storage: it cannot be read, or is not what its name says.
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

// Remove removes a blob that was put before a moment, and says whether it did: whoever looked whether somebody names it may
// have looked before it was put again.
func (s *Store) Remove(name string, before time.Time) (bool, error) {
	if !hashes().MatchString(name) {
		return false, fmt.Errorf("remove blob %q: %w: it is no SHA-256", name, perdure.Invalid)
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

// Blob describes one.
type Blob struct {
	SHA256    string
	SizeBytes int64
	PutAt     time.Time // last
}

// Walk calls fn with every blob, in no order that means anything, and ends with its error. Blobs may come and go meanwhile. What
// writes left unfinished before a moment is removed on the way; zero: none is.
func (s *Store) Walk(before time.Time, fn func(Blob) error) error {
	entries, err := s.list(".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch {
		case strings.HasPrefix(entry.Name(), temp):
			if _, err := s.remove(entry.Name(), before); err != nil {
				return err
			}
		case entry.IsDir() && folders().MatchString(entry.Name()):
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
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!about.Mode().IsRegular() || !hashes().MatchString(entry.Name())) {
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

// read returns what stands under a name, if it is what the name says.
func (s *Store) read(name string) ([]byte, error) {
	if !hashes().MatchString(name) {
		return nil, fs.ErrNotExist
	}
	content, err := s.root.ReadFile(fileOf(name))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != name {
		return nil, errors.New("the file is damaged: it is not what its name says")
	}
	return content, nil
}

// renew makes a blob that is there one that is new, and durable whoever wrote it.
func (s *Store) renew(name string) error {
	now := time.Now()
	if err := s.root.Chtimes(fileOf(name), now, now); err != nil {
		return err
	}
	return errors.Join(durable(s.root, fileOf(name)), durable(s.root, path.Dir(fileOf(name))), durable(s.root, "."))
}

// write writes a blob beside its place and moves it there, so that it is whole or not there.
func (s *Store) write(name string, content []byte) (err error) {
	beside := temp + rand.Text()
	defer func() {
		if err != nil {
			_ = s.root.Remove(beside) // it may be in its place already, or not there at all
		}
	}()
	f, err := s.root.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
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
	if err := s.root.Rename(beside, file); err != nil {
		return err
	}
	return errors.Join(durable(s.root, path.Dir(file)), durable(s.root, "."))
}

// durable makes a file or folder durable.
func durable(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func fileOf(name string) string { return name[:2] + "/" + name }
