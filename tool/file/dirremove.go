package file

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/perdure/perdure"
)

// maxDepth is the maximum depth of a session path (FI1). Anything deeper in a folder has no path,
// and is not walked: a command can easily create ten thousand levels.
const maxDepth = 64

// Remove deletes a file or directory and reports whether it existed. For a link it deletes the
// link, not its target.
func (d *Dir) Remove(ctx context.Context, name string, recursive bool) (bool, error) {
	name, err := d.writable(ctx, name)
	if err != nil {
		return false, err
	}
	if name == "/" {
		return false, isRoot()
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	found, err := d.root.Lstat(local(name))
	switch {
	case err != nil && isNothing(err):
		return false, nil
	case err != nil:
		return false, d.explain(err, name)
	case d.misspelled(name, found):
		return false, nil
	case readOnly(found):
		return false, isReadOnly(name)
	case found.IsDir():
		err = d.removeDirectory(ctx, name, recursive)
	default:
		err = d.root.Remove(local(name))
	}
	if err == nil {
		err = d.syncDirectory(path.Dir(name))
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
	deep, err := d.walk(ctx, name, func(below string, found fs.FileInfo) error {
		if readOnly(found) { // a read-only file protects its directories (FI5)
			return isReadOnly(below)
		}
		return nil
	})
	if err == nil && deep {
		err = d.flatten(ctx, name)
	}
	if err != nil {
		return err
	}
	return d.root.RemoveAll(local(name)) // including temporary files left by a crash
}

// walk visits everything below a directory, without following links, down to maxDepth; deep reports
// that there is more below. Files deleted during the walk are left out.
func (d *Dir) walk(ctx context.Context, name string, visit func(below string, found fs.FileInfo) error) (deep bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if strings.Count(name, "/") >= maxDepth {
		return true, nil
	}
	entries, err := d.entries(name)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		found, err := d.root.Lstat(local(below))
		switch {
		case err != nil && isNothing(err):
			continue
		case err == nil:
			err = visit(below, found)
		}
		if err != nil {
			return deep, err
		}
		if !found.IsDir() {
			continue
		}
		more, err := d.walk(ctx, below, visit)
		if err != nil && !isGone(err) {
			return deep, err
		}
		deep = deep || more
	}
	return deep, nil
}

// flatten splits a directory that is to be deleted into pieces with a depth that can be deleted:
// RemoveAll keeps one file open for each level, and the process may have fewer descriptors than
// there are levels.
func (d *Dir) flatten(ctx context.Context, name string) error {
	top, err := d.root.OpenRoot(local(name))
	if err != nil {
		return err
	}
	defer top.Close()
	cut := &cutter{ctx: ctx, top: top, left: []string{"."}}
	for len(cut.left) > 0 {
		piece := cut.left[0]
		cut.left = cut.left[1:]
		if err := cut.piece(piece, 0); err != nil {
			return err
		}
	}
	return nil
}

// cutter moves everything deeper than maxDepth to the top, piece by piece.
type cutter struct {
	ctx  context.Context // of one Remove, which a cutter does not outlive
	top  *os.Root
	left []string // pieces not examined yet
}

func (c *cutter) piece(name string, depth int) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	f, err := c.top.OpenFile(name, openDirectory, 0)
	if err != nil {
		return ignoreGone(err)
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return ignoreGone(err)
	}
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		switch {
		case !entry.IsDir():
		case depth == maxDepth:
			moved := tempPrefix + rand.Text()
			if err := c.top.Rename(below, moved); err != nil && !isNothing(err) {
				return err
			}
			c.left = append(c.left, moved)
		case depth > 0 || !strings.HasPrefix(entry.Name(), tempPrefix):
			// Moved pieces are in left; other temporary files are left to RemoveAll.
			if err := c.piece(below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if isNothing(err) {
		return nil
	}
	return err
}

// isGone reports whether an error means that the path was deleted in the meantime.
func isGone(err error) bool {
	return isNothing(err) || errors.Is(err, perdure.NotFound)
}
