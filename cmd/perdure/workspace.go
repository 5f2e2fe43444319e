package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/shell"
)

// runsFolder is where the commands of a data directory are kept.
const runsFolder = "runs"

// workspaces finds the folder of a session: it stands in the agent that the session was started with, so that
// whoever takes the session up works in the same place. It is safe for concurrent use.
type workspaces struct {
	store store.Store
	log   *slog.Logger

	trying sync.WaitGroup // of what is tried beside the start

	mu      sync.Mutex
	folders map[perdure.SessionID]string // guarded by mu; empty: the store keeps the files
	open    map[string]*file.Dir         // guarded by mu; by folder
}

func newWorkspaces(st store.Store, log *slog.Logger) *workspaces {
	return &workspaces{store: st, log: log, folders: map[perdure.SessionID]string{}, open: map[string]*file.Dir{}}
}

// folder returns the session's folder; empty: it has none.
func (w *workspaces) folder(ctx context.Context, id perdure.SessionID) (string, error) {
	w.mu.Lock()
	found, known := w.folders[id]
	w.mu.Unlock()
	if known {
		return found, nil
	}
	begun := false // a session that is not there may come
	err := w.store.View(ctx, func(r store.Reader) error {
		events, err := r.Events(id, 0, 1)
		if begun = err == nil && len(events) > 0; !begun {
			return err
		}
		if created, ok := events[0].Fact.(perdure.SessionCreated); ok {
			found = created.Agent.Metadata[cli.WorkspaceKey]
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("find the workspace of %s: %w", id, err)
	}
	if !begun {
		return "", nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.folders[id] = found
	return found, nil
}

// forget drops what is known of a deleted session, so that another under its id is looked at anew.
func (w *workspaces) forget(id perdure.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.folders, id)
}

// files opens the files of a session, as the model sees them and as the runtime writes them. Where the folder
// cannot be opened the model has no files, and what the runtime writes is kept in the store.
func (w *workspaces) files(id perdure.SessionID) (model, runtime tool.Files) {
	kept := sessionfile.New(w.store, id, true)
	folder, err := w.folder(context.Background(), id)
	if err == nil && folder == "" {
		return sessionfile.New(w.store, id, false), kept
	}
	var dir *file.Dir
	if err == nil {
		dir, err = w.dir(folder)
	}
	if err != nil {
		w.log.Warn("a workspace cannot be opened", "session", id, "error", err)
		return nil, kept
	}
	return dir, dir.Runtime()
}

func (w *workspaces) dir(folder string) (*file.Dir, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found, ok := w.open[folder]; ok {
		return found, nil
	}
	dir, err := file.OpenDir(folder)
	if err == nil {
		w.open[folder] = dir
	}
	return dir, err
}

// close waits for what is tried, and lets the folders go.
func (w *workspaces) close() error {
	w.trying.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, dir := range w.open {
		errs = append(errs, dir.Close())
	}
	clear(w.open)
	return errors.Join(errs...)
}

// shells is bash for the sessions of a data directory, each in its own workspace. What needs no working
// directory, such as finding a command again, is the embedded one's: it starts none, so it has no sandbox.
type shells struct {
	*shell.Bash
	config     shell.Config                     // without its folder and its Runner
	data       string                           // the data directory
	begin      func() (supervise.Runner, error) // of commands that begin here: made and tried once
	offline    func() (supervise.Runner, error) // likewise, of those of a session with a network list, which no command can be held to
	confines   bool
	workspaces *workspaces
}

var (
	_ tool.Background = (*shells)(nil)
	_ tool.Survivor   = (*shells)(nil)
	_ tool.Cleaner    = (*shells)(nil)
)

// newShells makes bash over a data directory. Whether this machine keeps the sandbox is tried by begin, not here.
func newShells(data string, c cli.Sandbox, w *workspaces) (*shells, error) {
	runner, err := supervise.New(supervise.Config{})
	if err != nil {
		return nil, err
	}
	profile := supervise.Profile(c.Profile)
	if profile == "" {
		profile = supervise.ProfileWorkspace
	}
	runs := filepath.Join(data, runsFolder)
	s := &shells{config: shell.Config{Runner: runner, RunsDir: runs, Dir: runs, Deadline: c.Deadline}, data: data, confines: profile.Confines(), workspaces: w}
	under := func(profile supervise.Profile) func() (supervise.Runner, error) {
		return sync.OnceValues(func() (supervise.Runner, error) {
			return supervise.New(supervise.Config{Profile: profile, Unsafe: c.Unsafe, Reads: c.Reads})
		})
	}
	s.begin = under(profile)
	if s.offline = s.begin; s.confines {
		s.offline = under(supervise.ProfileIsolated)
	}
	s.Bash, err = shell.New(s.config)
	return s, err
}

// Run implements tool.Tool.
func (s *shells) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	return s.RunBackground(ctx, call, env, env.Report())
}

// RunBackground implements tool.Background.
func (s *shells) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	folder, err := s.workspaces.folder(ctx, call.Session)
	if err != nil {
		return refused(tool.Internal(err))
	}
	if folder == "" {
		return refused(tool.Error("This session has no workspace to run commands in."))
	}
	if s.confines && holds(folder, s.data) {
		return refused(tool.Error("This session's workspace holds the data directory of perdure, which its commands could change, so no command runs. " +
			"An operator can start a session with another workspace, or keep the data elsewhere."))
	}
	begin := s.begin
	if !s.reachesAll(env.Network) {
		begin = s.offline
	}
	config := s.config
	if config.Runner, err = begin(); err != nil {
		s.workspaces.log.Warn("a command is refused", "session", call.Session, "call", call.ID, "error", err)
		return refused(tool.Error("No command can run here: " + err.Error()))
	}
	config.Dir = folder
	bash, err := shell.New(config)
	if err != nil {
		return refused(tool.Internal(err))
	}
	return bash.RunBackground(ctx, call, env, sink)
}

// reachesAll reports whether nobody said where a session may reach. A command that has the network reaches all of it, so
// where somebody did, it has none. Rules that cannot be read were meant to say something.
func (s *shells) reachesAll(list perdure.NetworkList) bool {
	rules, err := egress.ReadRules(filepath.Join(s.data, egress.RulesFile))
	return err == nil && len(list.Allowed)+len(list.Blocked)+len(rules.Allowed)+len(rules.Blocked) == 0
}

// holds reports whether path is folder or lies in it, as they really are.
func holds(folder, path string) bool {
	outer, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	inner, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel)
}

// refused marks the result of a call whose command was never started.
func refused(r tool.Result) tool.Result {
	r.Refused = true
	return r
}
