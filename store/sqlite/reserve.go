package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// reserveName is the file that keeps space aside. What stands in it means nothing.
const reserveName = "reserve"

// reserve is space of the disk that is kept aside for urgent transactions: a file as large as that. It is given away when
// one of them finds no space, and then only urgent ones are let in until there is space for the file again. It is safe for
// concurrent use.
type reserve struct {
	dir  string
	size int64

	mu   sync.Mutex
	kept bool // guarded by mu; the file is there
}

// newReserve keeps space aside; nil where none is wanted, or where the disk is so small that it would be most of it.
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

// onlyForUrgent reports whether the space that is left is for urgent transactions. Where the reserve was given away and there
// is space again, it is kept again.
func (r *reserve) onlyForUrgent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept {
		return false
	}
	free, _, err := space(r.dir)
	if err != nil {
		return false // nobody knows: the database says when it is full
	}
	if free >= uint64(r.size)*2 {
		r.kept = r.fill() == nil
	}
	return !r.kept && free < uint64(r.size)
}

// given reports whether the space was given away, or could not be kept, and is not there again.
func (r *reserve) given() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.kept
}

// open gives the space away, and reports whether there was any.
func (r *reserve) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.kept {
		return false
	}
	r.kept = false
	return os.Remove(filepath.Join(r.dir, reserveName)) == nil
}

// fill writes the file, or finds it. A file that was cut short takes no space.
func (r *reserve) fill() error {
	path := filepath.Join(r.dir, reserveName)
	if found, err := os.Stat(path); err == nil && found.Size() == r.size {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20) // written, since a file of holes keeps nothing
	for left := r.size; err == nil && left > 0; left -= int64(len(block)) {
		_, err = file.Write(block[:min(left, int64(len(block)))])
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
