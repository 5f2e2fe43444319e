package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/perdure/perdure"
)

// createLocal creates a local file that only this user can read. With force it replaces an existing
// one; without, an existing one is a Conflict whose hint is other.
func createLocal(a *app, name string, force bool, other string) (*os.File, error) {
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(name, how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, &userError{err: perdure.Conflict, message: a.oneLine(name, 200) + " already exists and was not changed", hint: other}
	}
	if err != nil {
		return nil, usageError("cannot write the file: "+err.Error(), "choose a file in a folder that this user can write to")
	}
	return file, nil
}

// download writes content to a local file.
func download(a *app, name string, force bool, content []byte) error {
	file, err := createLocal(a, name, force, "overwrite it with --force, or choose another file")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
