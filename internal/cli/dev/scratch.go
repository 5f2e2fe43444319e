package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// scratchPrefix begins the names of scratch directories.
const scratchPrefix = "perdure-dev-"

// scratchLock is the file of a scratch directory that its process holds locked. Only a directory
// with this file is ever removed by another process.
const scratchLock = "dev.lock"

// Scratch is a scratch directory and its lock. The system releases the lock when the process ends,
// however it ends.
type Scratch struct {
	Dir  string
	lock *os.File // nil: the directory is kept when the process is dead
}

// NewScratch creates a scratch directory below parent. A directory that is kept has no lock, and is
// not removed by anybody else.
func NewScratch(parent string, keep bool) (*Scratch, error) {
	dir, err := os.MkdirTemp(parent, scratchPrefix)
	if err != nil || keep {
		return &Scratch{Dir: dir}, err
	}
	// The file gets its name when it is locked, so that nobody finds it unlocked.
	path := filepath.Join(dir, scratchLock)
	file, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = tryLock(file)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	s := &Scratch{Dir: dir, lock: file}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), s.Remove())
	}
	return s, nil
}

// DeadScratch returns the scratch directories of this user below parent whose processes are dead.
// The caller holds their locks.
func DeadScratch(parent string) (dead []*Scratch) {
	found, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*", scratchLock)) // the pattern is valid
	for _, path := range found {
		dir := filepath.Dir(path)
		if about, err := os.Lstat(dir); err != nil || !about.IsDir() || !isOwn(about) {
			continue
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // it was removed
		}
		if free, err := tryLock(file); err != nil || !free {
			_ = file.Close()
			continue
		}
		dead = append(dead, &Scratch{Dir: dir, lock: file})
	}
	return dead
}

// Release releases the lock and leaves the directory.
func (s *Scratch) Release() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// Remove removes the directory, and releases the lock.
func (s *Scratch) Remove() error {
	defer s.Release()
	return os.RemoveAll(s.Dir)
}
