package memory

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// rootDir always exists and has no row.
const rootDir = "/"

// Get returns a file with its content.
func (v fileStore) Get(session perdure.SessionID, name string) (store.File, error) {
	f, ok := v.fileAt(session, name)
	if !ok {
		return store.File{}, fmt.Errorf("file %s of %s: %w", name, session, perdure.NotFound)
	}
	f.Content = bytes.Clone(f.Content)
	return f, nil
}

func (v fileStore) List(session perdure.SessionID, dir string, deep bool) ([]store.File, error) {
	if f, ok := v.fileAt(session, dir); !ok || !f.Directory {
		return nil, fmt.Errorf("list directory %s of %s: %w", dir, session, perdure.NotFound)
	}
	var found []store.File
	for _, f := range v.filesBelow(session, dir) {
		if deep || path.Dir(f.Path) == dir {
			f.Content = nil
			found = append(found, f)
		}
	}
	return found, nil
}

func (v fileStore) TotalBytes(session perdure.SessionID) (int64, error) {
	var total int64
	for _, f := range v.filesBelow(session, rootDir) {
		total += f.SizeBytes
	}
	return total, nil
}

func (t fileStore) Put(session perdure.SessionID, f store.File) (created bool, err error) {
	found, there := t.fileAt(session, f.Path)
	switch {
	case !path.IsAbs(f.Path):
		return false, fmt.Errorf("write %q of %s: %w: the path is not absolute", f.Path, session, perdure.Invalid)
	case there && f.Directory && !found.Directory:
		return false, fmt.Errorf("write %s of %s: %w: path exists but is not a directory", f.Path, session,
			perdure.Conflict)
	case there && found.Directory && !f.Directory:
		return false, fmt.Errorf("write %s of %s: %w: path is a directory", f.Path, session, perdure.Conflict)
	case there && f.Directory:
		return false, nil
	}
	if err := t.makeParents(session, f.Path); err != nil {
		return false, fmt.Errorf("write %s of %s: %w", f.Path, session, err)
	}
	t.writeFile(session, f)
	return !there, nil
}

// Remove removes a file, or a directory with everything below it. The root directory is only
// emptied.
func (t fileStore) Remove(session perdure.SessionID, name string) (bool, error) {
	if !path.IsAbs(name) {
		return false, fmt.Errorf("remove %q of %s: %w: the path is not absolute", name, session, perdure.Invalid)
	}
	gone := t.filesBelow(session, name)
	if f, ok := t.files.get(fileKey(session, name)); ok {
		gone = append(gone, f)
	}
	for _, f := range gone {
		t.files = t.files.remove(fileKey(session, f.Path))
	}
	return len(gone) > 0, nil
}

// makeParents creates the missing directories above a path.
func (t *tx) makeParents(session perdure.SessionID, name string) error {
	dir := path.Dir(name)
	f, ok := t.fileAt(session, dir)
	switch {
	case ok && f.Directory:
		return nil
	case ok:
		return fmt.Errorf("%w: %s is not a directory", perdure.Conflict, dir)
	}
	if err := t.makeParents(session, dir); err != nil {
		return err
	}
	t.writeFile(session, store.File{Path: dir, Directory: true})
	return nil
}

func (t *tx) writeFile(session perdure.SessionID, f store.File) {
	f.CreatedAt, f.UpdatedAt = t.now, t.now
	if found, ok := t.fileAt(session, f.Path); ok {
		f.CreatedAt = found.CreatedAt
	}
	if f.Directory {
		f.Content = nil
	} else {
		f.Content = append([]byte{}, f.Content...) // an empty file has content
	}
	f.SizeBytes = int64(len(f.Content))
	t.files = t.files.put(fileKey(session, f.Path), f)
}

// fileAt returns the entry at a path. It shares its content with the store.
func (v *tx) fileAt(session perdure.SessionID, name string) (store.File, bool) {
	if name == rootDir {
		return store.File{Path: rootDir, Directory: true}, true
	}
	return v.files.get(fileKey(session, name))
}

// filesBelow returns everything below a directory, sorted by path.
func (v *tx) filesBelow(session perdure.SessionID, dir string) []store.File {
	prefix := fileKey(session, strings.TrimSuffix(dir, "/")+"/")
	var found []store.File
	for key, f := range v.files.from(prefix) {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		found = append(found, f)
	}
	return found
}

func fileKey(session perdure.SessionID, name string) string { return sessionPrefix(session) + name }
