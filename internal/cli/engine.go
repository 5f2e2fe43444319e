package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Access says what a command does with the data directory.
type Access int

// The kinds of access. The zero value needs no data directory at all.
const (
	ToolsOnly Access = iota // the tools, over a store that is thrown away
	Reading                 // beside whoever holds the directory; nothing is recovered and nothing written
	Asking                  // likewise, but whoever holds the directory is asked, as long as somebody answers
	Writing                 // holds the directory. perdure.Conflict: another process does, or a newer version wrote it
)

// Opening says which engine a command needs.
type Opening struct {
	Access     Access
	Dir        string   // the data directory
	Server     string   // asked instead of the data directory; empty: whoever holds that, or nobody
	AllowShell bool     // bash must be there: an error says why it cannot
	Serve      bool     // for others, until it is stopped: what cannot be done here fails, and calls have longer to settle
	Ask, Deny  []string // tools whose calls a person is asked about, and those that never run; a denial comes first (AP1)
	AskModels  bool     // turns go on; false: the models are not asked, whatever runs is only brought to its end
	Log        *slog.Logger
}

// Engine is an engine that was opened for one command.
type Engine interface {
	engine.Engine
	// Run does the work until ctx ends, and returns when all of it has stopped.
	Run(ctx context.Context) error
	// CheckModel looks whether a model can be asked and returns the name that means it from everywhere.
	// Invalid: the name says no model of this build, or its script cannot be read.
	CheckModel(name string) (string, error)
	// UseModel asks another model than the one that a session was started with, as long as the engine is open.
	UseModel(id perdure.SessionID, name string)
	// Close gives the data directory back. Run has returned.
	Close() error
}

// The keys of Agent.Metadata that the command line writes and main reads.
const (
	// WorkspaceKey names the folder of the host that holds the session's files; without it the store holds them.
	WorkspaceKey = "workspace"
)

// ShellTool is the tool that runs commands. A session that was started without --allow-shell does not see it.
const ShellTool = "bash"

// turning runs fn while the engine works, and stops the engine when fn returns. When the engine stops first,
// the context of fn ends with its error.
func turning(ctx context.Context, eng Engine, fn func(context.Context) error) error {
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	var group sync.WaitGroup
	var failed error
	group.Go(func() {
		if failed = eng.Run(work); failed != nil {
			end(failed)
		}
	})
	err := fn(work)
	end(nil)
	group.Wait()
	switch interrupted := errors.Is(context.Cause(ctx), errInterrupted); {
	case failed != nil && !(interrupted && errors.Is(failed, context.Canceled)):
		return fmt.Errorf("the engine stopped: %w", failed)
	case interrupted && (err != nil || failed != nil):
		return errInterrupted
	}
	return err
}
