package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of a run directory; the package comment explains them.
const (
	ticketName  = "ticket"
	startedName = "started"
	revokedName = "revoked"
	commandName = "command"
	recordName  = "record"
	outputName  = "output"
	stopName    = "stop"
	exitName    = "exit"
	stderrName  = "supervisor.err"
)

const ticketText = "Renamed to started: the command runs. Renamed to revoked: it never will.\n"

// maxFileBytes limits the size of a file that should be small; Linux limits arguments and
// environment to far less.
const maxFileBytes = 64 << 20

// prepare creates dir with its ticket and syncs both.
func prepare(dir string) error {
	made, err := makeDirs(dir)
	if err != nil {
		return err
	}
	switch state, err := ticketState(dir); {
	case err != nil:
		return err
	case state != "" && state != ticketName:
		return fmt.Errorf("%w: it is %s", Spent, state)
	}
	// Write an existing ticket again: the process that created it may have died before the sync.
	f, err := os.OpenFile(filepath.Join(dir, ticketName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(ticketText)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	for _, d := range append(made, dir, filepath.Dir(dir)) {
		if err := syncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// makeDirs creates dir and its missing parents, and returns the directories that got a new entry.
func makeDirs(dir string) ([]string, error) {
	var grown []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		grown = append(grown, filepath.Dir(d))
	}
	return grown, os.MkdirAll(dir, 0o700)
}

// ticketState returns the current name of the ticket of dir, or "" if there is none.
func ticketState(dir string) (string, error) {
	// started and revoked never change again, so checking them before and after ticket cannot miss
	// a rename.
	for _, name := range []string{startedName, revokedName, ticketName, startedName, revokedName} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err == nil && st.Mode().IsRegular() { // a directory with that name does not count
			return name, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// revoke renames the ticket to revoked, if it is unused, and returns the resulting state of dir as
// ticketState does.
//
// It does not sync: after a power loss there is no supervisor that could still use the ticket, and
// the next recovery revokes it again.
func revoke(dir string) (string, error) {
	err := os.Rename(filepath.Join(dir, ticketName), filepath.Join(dir, revokedName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil {
		if err := removeFile(filepath.Join(dir, commandName)); err != nil {
			return "", err
		}
	}
	return ticketState(dir)
}

// writeJSON replaces the file dir/name with v, atomically and durably.
func writeJSON(dir, name string, v any) error {
	if err := replaceJSON(dir, name, v); err != nil {
		return err
	}
	return syncDir(dir)
}

// replaceJSON is writeJSON without durability: after a power loss the file is either the old one or
// the new one.
func replaceJSON(dir, name string, v any) error {
	tmp, err := writeDraft(dir, name, v)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, removeFile(tmp))
	}
	return nil
}

// writeDraft writes v to a new synced file next to dir/name, ready to be renamed, and returns its
// path. Each draft has its own name, so that two writers never share one.
func writeDraft(dir, name string, v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, draftPattern(name))
	if err != nil {
		return "", err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, removeFile(f.Name()))
	}
	return f.Name(), nil
}

// draftPattern matches the drafts of a file, for os.CreateTemp and filepath.Match.
func draftPattern(name string) string { return name + ".*.tmp" }

// readJSON reads the single JSON value of a file into v. Corrupt: the file contains anything else.
func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, maxFileBytes))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %s is not valid JSON: %w", Corrupt, path, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: %s has data after its JSON value", Corrupt, path)
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeRun removes the directory of a run that has ended. The renamed ticket goes last, so that an
// interrupted removal leaves a run that can be found and removed again, and never one that could be
// started. A non-empty directory that was never a run's is kept.
func removeRun(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	state, err := ticketState(dir)
	if err != nil {
		return err
	}
	if state == "" {
		return os.Remove(dir) // fails unless it is empty
	}
	for _, e := range entries {
		if e.Name() == state {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := removeFile(filepath.Join(dir, state)); err != nil {
		return err
	}
	return removeFile(dir)
}

// removeFile removes path if it exists.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
