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

// Write replaces a file atomically and makes missing parents: the content is synced under another name in
// the same directory, then renamed. A link is not written through, and another name of the same content (a
// hard link) keeps what it had.
func (d *Dir) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	name, err := d.writable(ctx, w.Path)
	if err != nil {
		return false, err
	}
	if len(w.Content) > maxFileBytes {
		return false, tooLarge(name, int64(len(w.Content)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old, err := d.replaceable(name)
	if err != nil {
		return false, err
	}
	if w.If != nil && !d.holds(name, old, *w.If) {
		return false, changed(name)
	}
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
	}
	if err := d.makeParents(name); err != nil {
		return false, err
	}
	return old == nil, d.replace(name, w.Content, mode)
}

// replaceable returns what a write would replace; nil is nothing.
func (d *Dir) replaceable(name string) (fs.FileInfo, error) {
	old, err := d.root.Lstat(local(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.explainPlace(err, name, path.Dir(name))
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

func (d *Dir) holds(name string, old fs.FileInfo, want []byte) bool {
	if old == nil || old.Size() != int64(len(want)) {
		return false
	}
	f, err := d.read(name)
	return err == nil && bytes.Equal(f.Content, want)
}

func (d *Dir) makeParents(name string) error {
	if err := d.root.MkdirAll(local(path.Dir(name)), 0o755); err != nil {
		return d.explainPlace(err, name, path.Dir(name))
	}
	return nil
}

func (d *Dir) replace(name string, content []byte, mode fs.FileMode) (err error) {
	temp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	defer func() {
		if err != nil {
			_ = d.root.Remove(local(temp)) // it may not be there
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

// syncDirectory makes a rename survive a power cut.
func (d *Dir) syncDirectory(name string) error {
	f, err := d.root.Open(local(name))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Seed writes a read-only file (FI5), in place of whatever file was there. It is for the host, and not bound
// by the model's rules.
func (d *Dir) Seed(ctx context.Context, name string, content []byte) error {
	name, err := d.readable(ctx, name)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.makeParents(name); err != nil {
		return err
	}
	return d.replace(name, content, 0o444)
}

// Remove deletes a file or directory and says whether it was there. A link is removed itself, not what it
// leads to.
func (d *Dir) Remove(ctx context.Context, name string, recursive bool) (bool, error) {
	name, err := d.writable(ctx, name)
	if err != nil {
		return false, err
	}
	if name == "/" {
		return false, isRoot()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.root.Lstat(local(name))
	switch {
	case err != nil && isNothing(err):
		return false, nil
	case err != nil:
		return false, d.explain(err, name)
	case readOnly(found):
		return false, isReadOnly(name)
	case found.IsDir():
		err = d.removeDirectory(ctx, name, recursive)
	default:
		err = d.root.Remove(local(name))
	}
	if err != nil {
		return false, d.explain(err, name)
	}
	return true, nil
}

func (d *Dir) removeDirectory(ctx context.Context, name string, recursive bool) error {
	entries, err := d.entries(name)
	if err != nil {
		return err
	}
	if len(entries) > 0 && !recursive {
		return notEmpty(name)
	}
	if err := d.refuseReadOnly(ctx, name); err != nil {
		return err
	}
	return d.root.RemoveAll(local(name)) // with what a crash left of a write
}

// refuseReadOnly finds a read-only file below a directory: such a file keeps its directories.
func (d *Dir) refuseReadOnly(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	entries, err := d.entries(name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		found, err := d.root.Lstat(local(below))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case readOnly(found):
			return isReadOnly(below)
		case found.IsDir():
			if err := d.refuseReadOnly(ctx, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// MakeDirectory makes a directory and its parents; one that exists is returned.
func (d *Dir) MakeDirectory(ctx context.Context, name string) (tool.FileStat, error) {
	name, err := d.writable(ctx, name)
	if err != nil {
		return tool.FileStat{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.root.MkdirAll(local(name), 0o755); err != nil {
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

// writable normalises a path for a change and refuses what only the runtime writes (FI7).
func (d *Dir) writable(ctx context.Context, name string) (string, error) {
	name, err := d.readable(ctx, name)
	if err != nil {
		return "", err
	}
	if !d.runtime && d.ofRuntime(name) {
		return "", isReadOnly(name)
	}
	if strings.HasPrefix(path.Base(name), tempPrefix) {
		return "", invalid(fmt.Sprintf("Invalid path %s: names that begin with %s are taken", name, tempPrefix))
	}
	return name, nil
}

// ofRuntime reports whether a path is, or lies below, the runtime's directory, by whatever name: a link leads
// there, and on some hosts so does another case.
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
