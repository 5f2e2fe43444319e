package supervise

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/internal/sandbox"
)

// Profile says how strictly commands are confined.
type Profile = sandbox.Profile

// Limits are the resource limits of a confined command.
type Limits = sandbox.Limits

// The profiles. The zero value of a Profile is ProfileNone.
const (
	ProfileNone      = sandbox.None
	ProfileWorkspace = sandbox.Workspace
	ProfileIsolated  = sandbox.Isolated
)

// Unenforceable is the kind of New's error if this machine cannot enforce the profile; the text
// says what is missing.
var Unenforceable = sandbox.Unenforceable

// Enforcement says of one part of the sandbox whether this machine can enforce it, and if not, why.
type Enforcement = sandbox.Fact

// ViewPart is the part that says whether commands under ProfileWorkspace have their own /tmp,
// /dev/shm and local sockets.
const ViewPart = sandbox.ViewPart

// Enforced says what this machine can enforce: first the parts of the sandbox, then the profiles,
// each of which is tried. A Config without Supervisor requires a program that calls Entry.
func Enforced(c Config) []Enforcement { return sandbox.Facts(c.Supervisor) }

// scratchName is the private directory of a confined command in its run directory. It is removed
// when the command ends.
const scratchName = "scratch"

// sandboxConfig returns the sandbox configuration in c.
func (c Config) sandboxConfig() sandbox.Config {
	return sandbox.Config{Profile: c.Profile, Unsafe: c.Unsafe, Limits: c.Limits, Reads: c.Reads}
}

// sandboxOrder returns the order for the sandbox of a command in dir, or nil if nothing is
// confined. It refuses a sandbox in which the command could write or read the files of its own run.
func (l *Local) sandboxOrder(dir string, c Command) (*sandbox.Order, error) {
	if !l.sandbox.Profile.Confines() {
		return nil, nil
	}
	c.Workspace = cmp.Or(c.Workspace, c.Dir)
	workspace, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil {
		return nil, fmt.Errorf("find the workspace: %w", err)
	}
	work, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("find the run directory: %w", err)
	}
	home := filepath.Join(dir, scratchName)
	if c.Home != "" {
		if home, err = makeHome(c.Home); err != nil {
			return nil, err
		}
	}
	switch {
	case within(workspace, home), within(home, workspace):
		return nil, fmt.Errorf("the home %s and the workspace %s contain one another; keep homes elsewhere", home, workspace)
	case workspace == "/":
		return nil, fmt.Errorf("the workspace is the root of the file system, so a sandbox would confine nothing")
	case !within(workspace, work):
		return nil, fmt.Errorf("the working directory %s is outside the workspace %s", work, workspace)
	case within(workspace, dir):
		return nil, fmt.Errorf("the run directory %s is in the workspace %s, where the command could change it; store runs elsewhere", dir, workspace)
	}
	for _, path := range l.sandbox.Reads {
		if real, err := filepath.EvalSymlinks(path); err == nil && within(real, dir) {
			return nil, fmt.Errorf("the run directory %s is in %s, which commands may read; store runs elsewhere", dir, path)
		}
	}
	return &sandbox.Order{
		Profile: l.sandbox.Profile, View: l.view, Unsafe: l.sandbox.Unsafe,
		Limits: l.sandbox.Limits.WithDefaults(), Reads: l.sandbox.Reads,
		Workspace: []byte(workspace), Scratch: []byte(home), Kept: c.Home != "", Dir: []byte(work),
	}, nil
}

// makeHome creates the directory of a Command.Home, and returns its real path.
func makeHome(path string) (string, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("create the home: %w", err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("find the home: %w", err)
	}
	return real, nil
}

// RemoveHome removes the directory of a Command.Home with everything in it, also directories that
// its commands made read-only. No command may be using it. A missing one is not an error.
func RemoveHome(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(dir string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(dir, 0o700) // RemoveAll says what is wrong
		}
		return nil
	})
	return os.RemoveAll(path)
}

// within reports whether path is folder or below it, going by the names alone.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
