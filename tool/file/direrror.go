package file

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The errors of TL28 and FI2.

func notFound(name string) error    { return failed(perdure.NotFound, "File not found: "+name) }
func noDirectory(name string) error { return failed(perdure.NotFound, "Directory not found: "+name) }
func isDirectory(name string) error { return failed(perdure.Conflict, "Is a directory: "+name) }
func isReadOnly(name string) error  { return failed(perdure.Conflict, "File is read-only: "+name) }
func notDirectory(name string) error {
	return failed(perdure.Conflict, "path exists but is not a directory: "+name)
}
func notEmpty(name string) error {
	return failed(perdure.Conflict, "Directory not empty: "+name+". Set recursive to true.")
}
func changed(name string) error {
	return failed(perdure.Conflict, "File changed since it was read: "+name+". Read it again.")
}
func isThere(name string) error {
	return failed(perdure.Conflict, "Path already exists: "+name)
}
func isRoot() error               { return invalid("The root directory cannot be deleted.") }
func irregular(name string) error { return invalid("Not a regular file: " + name) }
func isLink(name string) error {
	return invalid("Is a link: " + name + ". Write to its target instead.")
}
func otherSpelling(name string) error {
	return failed(perdure.Conflict, "A path with the same name in another spelling exists: "+name+". List the directory to see it.")
}
func changedMeanwhile(name string) error {
	return failed(perdure.Conflict, "Changed by another program at the same time: "+name+". Try again.")
}
func leadsOutside(name string) error {
	return invalid("Path leads outside the session's files: " + name)
}

func invalid(text string) error { return failed(perdure.Invalid, text) }

func failed(kind perdure.Kind, text string) error { return &tool.FileError{Kind: kind, Text: text} }

// isNothing reports whether an error means that the path does not exist, or that a parent is a
// file.
func isNothing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// explain converts an error of the host to one for the model. An error without a text for the model
// stays unchanged: it is internal and goes to the log.
func (d *Dir) explain(err error, name string) error {
	var fileErr *tool.FileError
	switch {
	case err == nil || errors.As(err, &fileErr):
		return err
	case isNothing(err):
		return notFound(name)
	case d.escapes != nil && errors.Is(err, d.escapes):
		return leadsOutside(name)
	case errors.Is(err, syscall.ELOOP):
		return invalid("Links form a cycle: " + name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return invalid("Invalid path " + name + ": a part of it is too long")
	case errors.Is(err, syscall.EISDIR) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY):
		return changedMeanwhile(name)
	case errors.Is(err, syscall.ENXIO): // a FIFO or socket without a peer
		return irregular(name)
	case errors.Is(err, fs.ErrPermission):
		return failed(perdure.Conflict, "Permission denied: "+name)
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return failed(perdure.Limit, "No space left for: "+name)
	}
	return fmt.Errorf("file %s: %w", name, err)
}

func (d *Dir) explainDirectory(err error, name string) error {
	if isNothing(err) {
		return noDirectory(name)
	}
	return d.explain(err, name)
}

// explainPlace is like explain, for errors whose cause may be dir or one of its parents: a file in
// place of a directory.
func (d *Dir) explainPlace(err error, name, dir string) error {
	for parent := dir; parent != "/"; parent = path.Dir(parent) {
		if found, statErr := d.root.Stat(local(parent)); statErr == nil && !found.IsDir() {
			return notDirectory(parent)
		}
	}
	return d.explain(err, name)
}
