package dev

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles is how many files of a folder are looked at. More are no source of a program.
const maxFiles = 20_000

// Watch notices which of its paths change: files, or folders with all that is in them. It looks at
// names, sizes and times only. The zero value watches nothing. One goroutine uses it.
type Watch struct {
	paths []path
}

// path is one watched path.
type path struct {
	name    string
	known   uint64 // fingerprint that was reported
	pending uint64 // fingerprint of the last look, if it differs; 0: it does not
}

// Add watches further paths. One that is watched already stays as it is, and one that does not
// exist is noticed when it comes.
func (w *Watch) Add(names ...string) {
	for _, name := range names {
		if slices.ContainsFunc(w.paths, func(p path) bool { return p.name == name }) {
			continue
		}
		seen, _ := fingerprint(name)
		w.paths = append(w.paths, path{name: name, known: seen})
	}
}

// Changed returns the paths that have changed since the last call. A change counts once two looks
// in a row agree, because a program writes a file in several steps; and a path that is missing
// counts when it is back, because an editor replaces a file.
func (w *Watch) Changed() (names []string) {
	for i := range w.paths {
		p := &w.paths[i]
		seen, ok := fingerprint(p.name)
		switch {
		case !ok:
		case seen == p.known:
			p.pending = 0
		case seen == p.pending:
			p.known, p.pending = seen, 0
			names = append(names, p.name)
		default:
			p.pending = seen
		}
	}
	return names
}

// fingerprint returns a number that differs when a file, or one below a folder, has changed. ok is
// false if the path cannot be read.
func fingerprint(name string) (sum uint64, ok bool) {
	found, err := os.Stat(name)
	if err != nil {
		return 0, false
	}
	out := fnv.New64a()
	if !found.IsDir() {
		add(out, "", found)
		return out.Sum64(), true
	}
	count := 0
	err = filepath.WalkDir(name, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone, or not ours
		}
		if skipped := at != name && ignored(entry.Name()); skipped && entry.IsDir() {
			return fs.SkipDir
		} else if skipped || entry.IsDir() {
			return nil
		}
		if count++; count > maxFiles {
			return fs.SkipAll
		}
		if info, err := entry.Info(); err == nil {
			add(out, at, info)
		}
		return nil
	})
	return out.Sum64(), err == nil
}

// add adds a file to a fingerprint.
func add(out hash.Hash, at string, info fs.FileInfo) {
	_, _ = out.Write([]byte(at)) // a hash never fails
	_ = binary.Write(out, binary.LittleEndian, []int64{info.Size(), info.ModTime().UnixNano()})
}

// ignored reports whether a name is no source of a program: hidden files, and what tools fetch or
// generate.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules" || name == "__pycache__" || strings.HasSuffix(name, "~")
}

// ProgramPaths returns the words of a command that name existing files or folders: what to watch
// where the user says nothing.
func ProgramPaths(command []string) (paths []string) {
	for _, word := range command {
		if _, err := os.Stat(word); err == nil {
			paths = append(paths, word)
		}
	}
	return paths
}
