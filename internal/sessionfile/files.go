// Package sessionfile is the files of a session, kept in the store.
//
// It may import the root, store and tool. The one thing to know: what stands below /.background is the runtime's; the
// model reads it and cannot write it.
package sessionfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// runtimeDir is written by the runtime only (FI7).
const runtimeDir = "/.background"

// Files is a session's files in the store. Every change is one commit.
type Files struct {
	store   store.Store
	session perdure.SessionID
	runtime bool // may write below runtimeDir
}

var _ tool.Files = (*Files)(nil)

// New returns the files of a session as the model sees them, or, with runtime, as the runtime writes them.
func New(s store.Store, session perdure.SessionID, runtime bool) *Files {
	return &Files{store: s, session: session, runtime: runtime}
}

// Stat describes a file or directory.
func (f *Files) Stat(ctx context.Context, name string) (tool.FileStat, error) {
	found, err := f.find(ctx, name, "File")
	return fileStat(found), err
}

// Read returns a file with its content.
func (f *Files) Read(ctx context.Context, name string) (tool.File, error) {
	found, err := f.find(ctx, name, "File")
	if err != nil {
		return tool.File{}, err
	}
	if found.Directory {
		return tool.File{}, &tool.FileError{Kind: perdure.Conflict, Text: "Is a directory: " + found.Path}
	}
	return tool.File{FileStat: fileStat(found), Content: found.Content}, nil
}

func (f *Files) find(ctx context.Context, name, noun string) (found store.File, err error) {
	name, err = tool.CleanPath(name)
	if err != nil {
		return found, err
	}
	err = f.store.View(ctx, func(r store.Reader) error {
		found, err = r.File(f.session, name)
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		err = &tool.FileError{Kind: perdure.NotFound, Text: noun + " not found: " + name}
	}
	return found, err
}

// Write replaces a file, or creates it.
func (f *Files) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	name, err := f.writable(w.Path)
	if err != nil {
		return false, err
	}
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		old, err := tx.File(f.session, name)
		missing := errors.Is(err, perdure.NotFound)
		switch {
		case err != nil && !missing:
			return err
		case !missing && old.Directory:
			return &tool.FileError{Kind: perdure.Conflict, Text: "Is a directory: " + name}
		case !missing && old.ReadOnly:
			return &tool.FileError{Kind: perdure.Conflict, Text: "File is read-only: " + name}
		case w.If != nil && (missing || !bytes.Equal(old.Content, *w.If)):
			return &tool.FileError{Kind: perdure.Conflict, Text: fmt.Sprintf("File changed since it was read: %s. Read it again.", name)}
		}
		created, err = tx.PutFile(f.session, store.File{Path: name, Content: w.Content, Encoding: encodingOf(w.Content)})
		if errors.Is(err, perdure.Conflict) {
			return &tool.FileError{Kind: perdure.Conflict, Text: "path exists but is not a directory: " + path.Dir(name)}
		}
		return err
	})
	return created, err
}

// Remove deletes a file, or a directory that is empty or, with recursive, with all below it.
func (f *Files) Remove(ctx context.Context, name string, recursive bool) (removed bool, err error) {
	name, err = f.writable(name)
	if err != nil {
		return false, err
	}
	if name == "/" {
		return false, &tool.FileError{Kind: perdure.Invalid, Text: "The root directory cannot be deleted."}
	}
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		old, err := tx.File(f.session, name)
		if errors.Is(err, perdure.NotFound) {
			removed = false
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.removable(tx, old, recursive); err != nil {
			return err
		}
		removed, err = tx.RemoveFile(f.session, name)
		return err
	})
	return removed, err
}

// removable refuses what is read-only, and a directory that is not empty unless told so.
func (f *Files) removable(tx store.Tx, old store.File, recursive bool) error {
	if old.ReadOnly {
		return &tool.FileError{Kind: perdure.Conflict, Text: "File is read-only: " + old.Path}
	}
	if !old.Directory {
		return nil
	}
	below, err := tx.Files(f.session, old.Path, true)
	if err != nil {
		return err
	}
	if len(below) > 0 && !recursive {
		return &tool.FileError{Kind: perdure.Conflict, Text: fmt.Sprintf("Directory not empty: %s. Set recursive to true.", old.Path)}
	}
	for _, file := range below {
		if file.ReadOnly {
			return &tool.FileError{Kind: perdure.Conflict, Text: "File is read-only: " + file.Path}
		}
	}
	return nil
}

// List returns what stands in a directory.
func (f *Files) List(ctx context.Context, dir string, deep bool) ([]tool.FileStat, error) {
	found, err := f.find(ctx, dir, "Directory")
	if err != nil {
		return nil, err
	}
	if !found.Directory {
		return nil, &tool.FileError{Kind: perdure.NotFound, Text: "Directory not found: " + found.Path}
	}
	var stats []tool.FileStat
	err = f.store.View(ctx, func(r store.Reader) error {
		stats = nil
		files, err := r.Files(f.session, found.Path, deep)
		for _, file := range files {
			stats = append(stats, fileStat(file))
		}
		return err
	})
	return stats, err
}

// MakeDirectory makes a directory and its parents.
func (f *Files) MakeDirectory(ctx context.Context, name string) (tool.FileStat, error) {
	name, err := f.writable(name)
	if err != nil {
		return tool.FileStat{}, err
	}
	var made store.File
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.PutFile(f.session, store.File{Path: name, Directory: true}); err != nil {
			if errors.Is(err, perdure.Conflict) {
				return &tool.FileError{Kind: perdure.Conflict, Text: "path exists but is not a directory: " + name}
			}
			return err
		}
		made, err = tx.File(f.session, name)
		return err
	})
	return fileStat(made), err
}

// writable normalises a path and refuses what only the runtime writes (FI7).
func (f *Files) writable(name string) (string, error) {
	name, err := tool.CleanPath(name)
	if err != nil {
		return "", err
	}
	if !f.runtime && (name == runtimeDir || strings.HasPrefix(name, runtimeDir+"/")) {
		return "", &tool.FileError{Kind: perdure.Conflict, Text: "File is read-only: " + name}
	}
	return name, nil
}

func fileStat(f store.File) tool.FileStat {
	return tool.FileStat{
		Path: f.Path, Name: path.Base(f.Path), IsDirectory: f.Directory, IsReadOnly: f.ReadOnly,
		SizeBytes: f.SizeBytes, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
	}
}

// encodingOf says how content is written in JSON (FI2).
func encodingOf(content []byte) store.Encoding {
	head := content[:min(len(content), 8192)]
	if bytes.IndexByte(head, 0) >= 0 || !validText(content) {
		return store.EncodingBase64
	}
	return store.EncodingText
}

func validText(content []byte) bool { return utf8.Valid(content) }
