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

// The texts of TL28 and FI2, as a Dir says them.

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
	return failed(perdure.Conflict, "Something is there already: "+name)
}
func isRoot() error               { return invalid("The root directory cannot be deleted.") }
func irregular(name string) error { return invalid("Not a regular file: " + name) }
func isLink(name string) error {
	return invalid("Is a link: " + name + ". Write to the file that it leads to.")
}
func otherSpelling(name string) error {
	return failed(perdure.Conflict, "Something there has the same name in another spelling: "+name+". List the directory.")
}
func meanwhile(name string) error {
	return failed(perdure.Conflict, "Changed by another program meanwhile: "+name+". Try again.")
}
func leadsOutside(name string) error { return invalid("Leads outside of the session's files: " + name) }

func invalid(text string) error { return failed(perdure.Invalid, text) }

func failed(kind perdure.Kind, text string) error { return &tool.FileError{Kind: kind, Text: text} }

// isNothing reports an error that means: nothing is there, or a file stands where a parent would.
func isNothing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// explain turns an error of the host into one for the model. What has no words for the model stays as it
// is: it is internal, and for the log.
func (d *Dir) explain(err error, name string) error {
	var told *tool.FileError
	switch {
	case err == nil || errors.As(err, &told):
		return err
	case isNothing(err):
		return notFound(name)
	case d.escapes != nil && errors.Is(err, d.escapes):
		return leadsOutside(name)
	case errors.Is(err, syscall.ELOOP):
		return invalid("Links lead in a circle: " + name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return invalid("Invalid path " + name + ": a name in it is too long")
	case errors.Is(err, syscall.EISDIR) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY):
		return meanwhile(name)
	case errors.Is(err, syscall.ENXIO): // a FIFO or socket without anybody at its other end
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

// explainPlace is explain where what is wrong may be dir or a parent of it: a file that stands in a
// directory's place.
func (d *Dir) explainPlace(err error, name, dir string) error {
	for parent := dir; parent != "/"; parent = path.Dir(parent) {
		if found, statErr := d.root.Stat(local(parent)); statErr == nil && !found.IsDir() {
			return notDirectory(parent)
		}
	}
	return d.explain(err, name)
}
