package sessionfile

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

var _ tool.Mover = (*Files)(nil)

// Move moves a file, or a directory with everything below it, in one commit. It replaces nothing.
// The moved files get new creation times.
func (f *Files) Move(ctx context.Context, from, to string) (moved tool.FileStat, err error) {
	if from, err = f.writable(from); err == nil {
		to, err = f.writable(to)
	}
	switch {
	case err != nil:
		return moved, err
	case from == "/" || to == "/":
		return moved, failed(perdure.Invalid, "The root directory cannot be moved or replaced.")
	case to == from || strings.HasPrefix(to, from+"/"):
		return moved, failed(perdure.Invalid, "Cannot move "+from+" to "+to+": the target is the source itself or inside it.")
	}
	shownFrom, shownTo := f.maskedPath(from), f.maskedPath(to)
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Files().Get(f.session, to); err == nil {
			return alreadyExists(to)
		} else if !errors.Is(err, perdure.NotFound) {
			return err
		}
		if err := f.moveIn(tx, from, to); err != nil {
			return err
		}
		there, err := tx.Files().Get(f.session, to)
		if err != nil {
			return err
		}
		moved = fileStat(there)
		if err := f.record(tx, perdure.FileWritten{Path: shownFrom, Removed: true}); err != nil {
			return err
		}
		return f.record(tx, perdure.FileWritten{Path: shownTo, SizeBytes: moved.SizeBytes, Directory: moved.IsDirectory})
	})
	return moved, err
}

// moveIn writes the files below from to their new paths, and removes the old ones.
func (f *Files) moveIn(tx store.Tx, from, to string) error {
	top, err := tx.Files().Get(f.session, from)
	if errors.Is(err, perdure.NotFound) {
		return failed(perdure.NotFound, "File not found: "+from)
	}
	if err != nil {
		return err
	}
	if err := f.removable(tx, top, true); err != nil {
		return err
	}
	all := []store.File{top}
	if top.Directory {
		below, err := tx.Files().List(f.session, from, true)
		if err != nil {
			return err
		}
		all = append(all, below...)
	}
	for _, old := range all {
		place := to + strings.TrimPrefix(old.Path, from)
		if _, err := tool.CleanPath(place); err != nil { // too long, or too deep
			return err
		}
		if old, err = tx.Files().Get(f.session, old.Path); err != nil {
			return err
		}
		if _, err := put(tx, f.session,
			store.File{Path: place, Content: old.Content, Directory: old.Directory}); err != nil {
			return err
		}
	}
	_, err = tx.Files().Remove(f.session, from)
	return err
}

// RemoveIf deletes a file if it has this content.
func (f *Files) RemoveIf(ctx context.Context, name string, content []byte) (removed bool, err error) {
	if name, err = f.writable(name); err != nil {
		return false, err
	}
	shown := f.maskedPath(name)
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		removed = false
		old, err := tx.Files().Get(f.session, name)
		switch {
		case errors.Is(err, perdure.NotFound):
			return nil
		case err != nil:
			return err
		case old.Directory:
			return isDirectory(name)
		case old.ReadOnly:
			return isReadOnly(name)
		case !bytes.Equal(old.Content, content):
			return isChanged(name)
		}
		if removed, err = tx.Files().Remove(f.session, name); err != nil || !removed {
			return err
		}
		return f.record(tx, perdure.FileWritten{Path: shown, Removed: true})
	})
	return removed, err
}
