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
	if w.If != nil && !d.holds(name, old, *w.If) {
		return false, changed(name)
	}
	if w.New && old != nil {
		return false, isThere(name)
	}
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
	}
	return old == nil, d.put(ctx, name, w.Content, old, mode)
}

// put writes content in the place of old, which may be nil, if there is room for it.
func (d *Dir) put(ctx context.Context, name string, content []byte, old fs.FileInfo, mode fs.FileMode) error {
	grown := int64(len(content))
	if old != nil {
		grown -= old.Size()
	}
	if err := d.room(ctx, name, grown); err != nil {
		return err
	}
	if err := d.makeDirectories(path.Dir(name)); err != nil {
		return d.explainPlace(err, name, path.Dir(name))
	}
	return d.replace(name, content, mode)
}

// room refuses a write by which the folder would grow past its quota (FI6). It looks at all that stands there, since
// others write there too.
func (d *Dir) room(ctx context.Context, name string, grown int64) error {
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

// Seed writes an initial file, read-only or not, in place of whatever file was there (FI5). It is for the host, and not
// bound by the model's rules. A read-only file has no write permission: tools refuse to change it, and so does the host,
// but a command in the same folder may put another file in its place. Seeding again puts it back.
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
		old = nil // nothing is there, or what is in the way is told below
	case old.IsDir():
		return isDirectory(name)
	}
	mode := fs.FileMode(0o644)
	if f.IsReadOnly {
		mode = 0o444
	}
	return d.put(ctx, name, content, old, mode)
}

// replaceable returns what a write would replace; nil is nothing.
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

func (d *Dir) holds(name string, old fs.FileInfo, want []byte) bool {
	if old == nil || old.Size() != int64(len(want)) {
		return false
	}
	f, err := d.read(name)
	return err == nil && bytes.Equal(f.Content, want)
}

// makeDirectories makes a directory and its parents, which then survive a power cut.
func (d *Dir) makeDirectories(dir string) error {
	there := dir // the nearest that is
	var found fs.FileInfo
	for {
		var err error
		if found, err = d.root.Lstat(local(there)); !errors.Is(err, fs.ErrNotExist) || there == "/" {
			break
		}
		there = path.Dir(there)
	}
	if found != nil && d.misspelled(there, found) {
		return otherSpelling(there)
	}
	if err := d.root.MkdirAll(local(dir), 0o755); err != nil {
		return err
	}
	for made := dir; made != there; made = path.Dir(made) {
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
	f, err := d.openDirectory(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// MakeDirectory makes a directory and its parents; one that exists is returned.
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

// writable normalises a path for a change and refuses what only the runtime writes (FI7).
func (d *Dir) writable(ctx context.Context, name string) (string, error) {
	name, err := d.readable(ctx, name)
	if err != nil {
		return "", err
	}
	if !d.runtime && d.ofRuntime(name) {
		return "", isReadOnly(name)
	}
	if strings.Contains(name, "/"+tempPrefix) {
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
