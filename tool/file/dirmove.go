package file

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/perdure/perdure/tool"
)

var _ tool.Mover = (*Dir)(nil)

// Move renames a file, or a directory and everything below it, and creates missing parents. It
// replaces nothing, and does not move links.
func (d *Dir) Move(ctx context.Context, from, to string) (moved tool.FileStat, err error) {
	if from, err = d.writable(ctx, from); err == nil {
		to, err = d.writable(ctx, to)
	}
	switch {
	case err != nil:
		return moved, err
	case from == "/" || to == "/":
		return moved, invalid("The root directory cannot be moved or replaced.")
	case to == from || strings.HasPrefix(to, from+"/"):
		return moved, invalid("Cannot move " + from + " to " + to + ": the target is the source itself or inside it.")
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return moved, err
	}
	defer unlock()
	if err := d.movable(ctx, from, to); err != nil {
		return moved, err
	}
	if err := d.makeDirectories(path.Dir(to)); err != nil {
		return moved, d.explainPlace(err, to, path.Dir(to))
	}
	if err := d.root.Rename(local(from), local(to)); err != nil {
		return moved, d.explain(err, from)
	}
	for _, dir := range []string{path.Dir(to), path.Dir(from)} {
		if err := d.syncDirectory(dir); err != nil {
			return moved, d.explain(err, to)
		}
	}
	found, err := d.root.Stat(local(to))
	if err != nil {
		return moved, d.explain(err, to)
	}
	return describe(to, found), nil
}

// movable refuses a missing source, a link, a read-only file, an existing target and paths that
// become too deep.
func (d *Dir) movable(ctx context.Context, from, to string) error {
	if _, err := d.root.Lstat(local(to)); err == nil {
		return isThere(to)
	} else if !isNothing(err) {
		return d.explainPlace(err, to, path.Dir(to))
	}
	found, err := d.root.Lstat(local(from))
	switch {
	case err != nil && isNothing(err):
		return notFound(from)
	case err != nil:
		return d.explain(err, from)
	case d.misspelled(from, found):
		return notFound(from)
	case readOnly(found):
		return isReadOnly(from)
	case found.Mode()&fs.ModeSymlink != 0:
		return isLink(from)
	case !found.IsDir():
		return nil
	}
	deep, err := d.walk(ctx, from, func(below string, found fs.FileInfo) error {
		if readOnly(found) { // a read-only file protects its directories (FI5)
			return isReadOnly(below)
		}
		_, err := tool.CleanPath(to + strings.TrimPrefix(below, from))
		return err
	})
	if err == nil && deep {
		err = invalid("Too deeply nested to be moved: " + from)
	}
	return err
}

// RemoveIf deletes a file that has this content.
func (d *Dir) RemoveIf(ctx context.Context, name string, content []byte) (bool, error) {
	name, err := d.writable(ctx, name)
	if err != nil {
		return false, err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	old, err := d.replaceable(name)
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist), err == nil && old == nil:
		return false, nil
	case err != nil:
		return false, err
	case !d.isDirectoryAt(name, old, content):
		return false, changed(name)
	}
	if err = d.root.Remove(local(name)); err == nil {
		err = d.syncDirectory(path.Dir(name))
	}
	if err != nil {
		return false, d.explain(err, name)
	}
	return true, nil
}
