package supervise

import (
	"fmt"
	"path/filepath"

	"github.com/perdure/perdure/internal/sandbox"
)

// Profile is how much a command is confined.
type Profile = sandbox.Profile

// Limits are what a confined command may use up.
type Limits = sandbox.Limits

// The profiles. The zero value of a Profile is ProfileNone.
const (
	ProfileNone      = sandbox.None
	ProfileWorkspace = sandbox.Workspace
	ProfileIsolated  = sandbox.Isolated
)

// Unenforceable is the kind of New's error where this machine cannot keep the profile; the text says what is missing.
var Unenforceable = sandbox.Unenforceable

// Holding is one thing that this machine can keep, or cannot, and why.
type Holding = sandbox.Fact

// Holds says what of the sandbox this machine can keep, part by part and then profile by profile, each of which is
// tried. A Config without Supervisor is for a program that calls Entry.
func Holds(c Config) []Holding { return sandbox.Facts(c.Supervisor) }

// scratchName is the folder of a run directory that a confined command has for itself; it goes when the command ends.
const scratchName = "scratch"

// sandboxed is the sandbox that c asks for.
func (c Config) sandboxed() sandbox.Config {
	return sandbox.Config{Profile: c.Profile, Unsafe: c.Unsafe, Limits: c.Limits, Reads: c.Reads}
}

// order makes what the stage of a command in dir is told, or nil where nothing is confined. It refuses a sandbox in which
// the command could write or read the files of its own run.
func (l *Local) order(dir string, c Command) (*sandbox.Order, error) {
	if !l.sandbox.Profile.Confines() {
		return nil, nil
	}
	if c.Workspace == "" {
		c.Workspace = c.Dir
	}
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
	switch {
	case workspace == "/":
		return nil, fmt.Errorf("the workspace is the root of the file system: a sandbox would confine nothing")
	case !within(workspace, work):
		return nil, fmt.Errorf("the working directory %s is outside the workspace %s", work, workspace)
	case within(workspace, dir):
		return nil, fmt.Errorf("the run directory %s is in the workspace %s, where the command could change it: keep runs elsewhere", dir, workspace)
	}
	for _, path := range l.sandbox.Reads {
		if real, err := filepath.EvalSymlinks(path); err == nil && within(real, dir) {
			return nil, fmt.Errorf("the run directory %s is in %s, which commands may read: keep runs elsewhere", dir, path)
		}
	}
	return &sandbox.Order{
		Profile: l.sandbox.Profile, Unsafe: l.sandbox.Unsafe, Limits: l.sandbox.Limits.WithDefaults(), Reads: l.sandbox.Reads,
		Workspace: []byte(workspace), Scratch: []byte(filepath.Join(dir, scratchName)), Dir: []byte(work),
	}, nil
}

// within reports whether path is folder or lies in it, by their names.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
