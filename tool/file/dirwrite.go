package file

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/perdure/perdure/tool"
)

// Write replaces a file atomically and creates missing parents: the content is synced to a
// temporary file in the same directory, which is then renamed. It does not write through links, and
// another hard link to the old content keeps it.
func (d *Dir) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	name, err := d.writable(ctx, w.Path)
	if err != nil {
		return false, err
	}
	if err := d.limits.CheckFile(name, int64(len(w.Content))); err != nil {
		return false, err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	old, err := d.replaceable(name)
	if err != nil {
		return false, err
	}
	if w.IfContent != nil && !d.isDirectoryAt(name, old, *w.IfContent) {
		return false, changed(name)
	}
	if w.MustNotExist && old != nil {
		return false, isThere(name)
	}
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
	}
	return old == nil, d.put(ctx, name, w.Content, old, mode)
}

// put replaces old, which may be nil, with content, if the quota allows it.
func (d *Dir) put(ctx context.Context, name string, content []byte, old fs.FileInfo, mode fs.FileMode) error {
	grown := int64(len(content))
	if old != nil {
		grown -= old.Size()
	}
	if err := d.checkSpace(ctx, name, grown); err != nil {
		return err
	}
	if err := d.makeDirectories(path.Dir(name)); err != nil {
		return d.explainPlace(err, name, path.Dir(name))
	}
	return d.replace(name, content, mode)
}

// checkSpace refuses a write that would exceed the quota of the folder (FI6). It adds up all files
// in the folder, because others write there too.
func (d *Dir) checkSpace(ctx context.Context, name string, grown int64) error {
	if !d.counts || d.runtime || grown <= 0 {
		return nil
	}
	var used int64
	_, err := d.walk(ctx, "/", func(_ string, found fs.FileInfo) error {
		if found.Mode().IsRegular() {
			used += found.Size()
		}
		return nil
	})
	if err != nil {
		return d.explain(err, name)
	}
	return d.limits.CheckSession(name, used, grown)
}

// Seed writes an initial file, read-only or not, and replaces an existing file (FI5). Only the host
// calls it; the rules for the model do not apply. A read-only file has no write permission: tools
// and the host refuse to change it, but a command in the same folder may replace it. Seeding again
// restores it.
func (d *Dir) Seed(ctx context.Context, f tool.InitialFile) error {
	name, err := d.readable(ctx, f.Path)
	if err != nil {
		return err
	}
	content, err := tool.DecodeContent(f.Content, f.Encoding)
	if err != nil {
		return err
	}
	if err := d.limits.CheckFile(name, int64(len(content))); err != nil {
		return err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := d.root.Lstat(local(name))
	switch {
	case err != nil:
		old = nil // it does not exist, or the write below reports what prevents it
	case old.IsDir():
		return isDirectory(name)
	}
	mode := fs.FileMode(0o644)
	if f.IsReadOnly {
		mode = 0o444
	}
	return d.put(ctx, name, content, old, mode)
}

// replaceable returns the file that a write would replace; nil if there is none.
func (d *Dir) replaceable(name string) (fs.FileInfo, error) {
	old, err := d.root.Lstat(local(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.explainPlace(err, name, path.Dir(name))
	case d.misspelled(name, old):
		return nil, otherSpelling(name)
	case old.IsDir():
		return nil, isDirectory(name)
	case old.Mode()&fs.ModeSymlink != 0:
		return nil, isLink(name)
	case !old.Mode().IsRegular():
		return nil, irregular(name)
	case readOnly(old):
		return nil, isReadOnly(name)
	}
	return old, nil
}

func (d *Dir) isDirectoryAt(name string, old fs.FileInfo, want []byte) bool {
	if old == nil || old.Size() != int64(len(want)) {
		return false
	}
	f, err := d.read(name)
	return err == nil && bytes.Equal(f.Content, want)
}

// makeDirectories creates a directory and its parents, durably.
func (d *Dir) makeDirectories(dir string) error {
	existing := dir // the nearest existing parent
	var found fs.FileInfo
	for {
		var err error
		if found, err = d.root.Lstat(local(existing)); !errors.Is(err, fs.ErrNotExist) || existing == "/" {
			break
		}
		existing = path.Dir(existing)
	}
	if found != nil && d.misspelled(existing, found) {
		return otherSpelling(existing)
	}
	if err := d.root.MkdirAll(local(dir), 0o755); err != nil {
		return err
	}
	for made := dir; made != existing; made = path.Dir(made) {
		if err := d.syncDirectory(path.Dir(made)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) replace(name string, content []byte, mode fs.FileMode) (err error) {
	temp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	defer func() {
		if err != nil {
			_ = d.root.Remove(local(temp)) // it may not exist
			err = d.explain(err, name)
		}
	}()
	f, err := d.root.OpenFile(local(temp), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := d.root.Rename(local(temp), local(name)); err != nil {
		return err
	}
	return d.syncDirectory(path.Dir(name))
}

// syncDirectory makes a rename durable.
func (d *Dir) syncDirectory(name string) error {
	f, err := d.openDirectory(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// MakeDirectory creates a directory and its parents; an existing directory is returned.
func (d *Dir) MakeDirectory(ctx context.Context, name string) (tool.FileStat, error) {
	name, err := d.writable(ctx, name)
	if err != nil {
		return tool.FileStat{}, err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return tool.FileStat{}, err
	}
	defer unlock()
	if err := d.makeDirectories(name); err != nil {
		return tool.FileStat{}, d.explainPlace(err, name, name)
	}
	found, err := d.root.Stat(local(name))
	if err != nil {
		return tool.FileStat{}, d.explain(err, name)
	}
	if !found.IsDir() {
		return tool.FileStat{}, notDirectory(name)
	}
	return describe(name, found), nil
}

// writable normalises a path for a change and refuses paths that only the runtime may write (FI7).
func (d *Dir) writable(ctx context.Context, name string) (string, error) {
	name, err := d.readable(ctx, name)
	if err != nil {
		return "", err
	}
	if !d.runtime && d.ofRuntime(name) {
		return "", isReadOnly(name)
	}
	if strings.Contains(name, "/"+tempPrefix) {
		return "", invalid(fmt.Sprintf("Invalid path %s: names that start with %s are reserved", name, tempPrefix))
	}
	return name, nil
}

// ofRuntime reports whether a path is the runtime's directory or lies below it, under any name: a
// link may lead there and, on some hosts, another case.
func (d *Dir) ofRuntime(name string) bool {
	if name == runtimeDir || strings.HasPrefix(name, runtimeDir+"/") {
		return true
	}
	reserved, err := d.root.Stat(local(runtimeDir))
	if err != nil {
		return false
	}
	for ; name != "/"; name = path.Dir(name) {
		if found, err := d.root.Stat(local(name)); err == nil && os.SameFile(found, reserved) {
			return true
		}
	}
	return false
}
