package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// reserveName is the name of the file that reserves disk space. Its content has no meaning.
const reserveName = "reserve"

// reserve sets disk space aside for urgent transactions, in a file of that size. The file is
// removed when an urgent transaction finds the disk full. From then on only urgent transactions are
// admitted, until there is enough space for the file again. A reserve is safe for concurrent use.
type reserve struct {
	dir  string
	size int64

	mu   sync.Mutex
	held bool // guarded by mu; the file exists
}

// newReserve creates the file. It returns nil if size is 0, or if the disk is smaller than three
// times that size.
func newReserve(dir string, size int64) *reserve {
	if size <= 0 {
		return nil
	}
	_, whole, err := space(dir)
	if err != nil || whole < uint64(size)*3 {
		return nil
	}
	r := &reserve{dir: dir, size: size}
	r.onlyForUrgent()
	return r
}

// onlyForUrgent reports whether the free space is left for urgent transactions. It restores a
// removed reserve once there is space for it.
func (r *reserve) onlyForUrgent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		return false
	}
	free, _, err := space(r.dir)
	if err != nil {
		return false // unknown: the database reports when the disk is full
	}
	if free >= uint64(r.size)*2 {
		r.held = r.fill() == nil
	}
	return !r.held && free < uint64(r.size)
}

// isGone reports whether the reserve was removed, or never created, and is not restored yet.
func (r *reserve) isGone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.held
}

// giveUp removes the reserve, and reports whether it existed.
func (r *reserve) giveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held {
		return false
	}
	r.held = false
	return os.Remove(filepath.Join(r.dir, reserveName)) == nil
}

// fill writes the file, or finds it complete. A file that could not be completed is removed.
func (r *reserve) fill() error {
	path := filepath.Join(r.dir, reserveName)
	if found, err := os.Stat(path); err == nil && found.Size() == r.size {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20) // written, since a sparse file reserves nothing
	for left := r.size; err == nil && left > 0; left -= int64(len(block)) {
		_, err = file.Write(block[:min(left, int64(len(block)))])
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
