package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/shell"
)

// runsFolder is the folder with the run directories of commands.
const runsFolder = "runs"

// workspaces finds the folder of a session. It is stored with the session's agent, so that every
// process that drives the session uses the same folder. It is safe for concurrent use.
type workspaces struct {
	store store.Store
	log   *slog.Logger

	trying sync.WaitGroup // of sandbox tests in the background

	mu      sync.Mutex
	folders map[perdure.SessionID]string // guarded by mu; empty: the files are in the store
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
	begun := false // an unknown session may be created later
	err := w.store.View(ctx, func(r store.Reader) error {
		events, err := r.Journal().Events(id, 0, 1)
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

// hasWorkspace reports whether the sessions of an agent work in a folder of this machine.
func hasWorkspace(a perdure.Agent) bool { return a.Metadata[cli.WorkspaceKey] != "" }

// remove forgets a deleted session, so that a new one with the same id is read again.
func (w *workspaces) remove(id perdure.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.folders, id)
}

// files opens the files of a session, as the model sees them and as the runtime writes them. If the
// folder cannot be opened, the model has no files, and the runtime writes to the store.
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
		w.log.Warn("opening a workspace failed", "session", id, "error", err)
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

// close waits for sandbox tests and closes the folders.
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

// sandboxedRunner is bash for the sessions of a data directory, each in its own workspace. Methods
// that need no workspace, such as finding a running command, are those of the embedded Bash: they
// start no commands, and need no sandbox.
type sandboxedRunner struct {
	*shell.Bash
	config shell.Config                     // without folder and Runner
	data   string                           // the data directory
	begin  func() (supervise.Runner, error) // runner of new commands: created and tested once
	// likewise, for sessions with a network list, which commands cannot be restricted to
	offline    func() (supervise.Runner, error)
	isConfined bool
	workspaces *workspaces
}

var (
	_ tool.Background = (*sandboxedRunner)(nil)
	_ tool.Adoptable  = (*sandboxedRunner)(nil)
	_ tool.Cleaner    = (*sandboxedRunner)(nil)
	_ tool.Forcer     = (*sandboxedRunner)(nil)
	_ tool.Supervised = (*sandboxedRunner)(nil)
)

// sandboxAdvice says what the operator of this program can do about a refusal of the sandbox.
const sandboxAdvice = "The operator can start perdure run or perdure serve with --sandbox-read {path} to let commands read " +
	"it, with --workspace for another folder to write to, or with --sandbox none for commands without a sandbox."

// secretAdvice says what the operator can do about a secret that nobody has allowed.
const secretAdvice = "An operator can start perdure run or perdure serve with --use-secret {name} or --ask-secret {name}, or " +
	"allow " + tool.UseSecret + " in the permissions of the agent."

// newSandboxedRunner creates bash for a data directory. begin tests the sandbox, not
// newSandboxedRunner.
func newSandboxedRunner(data string, c cli.Sandbox, limits cli.Limits, w *workspaces) (*sandboxedRunner, error) {
	runner, err := supervise.New(supervise.Config{})
	if err != nil {
		return nil, err
	}
	profile := supervise.Profile(c.Profile)
	profile = cmp.Or(profile, supervise.ProfileWorkspace)
	runs := filepath.Join(data, runsFolder)
	s := &sandboxedRunner{config: shell.Config{Runner: runner, RunsDir: runs, Dir: runs, Deadline: cmp.Or(c.Deadline, span(limits.Calls.Deadline)),
		Grace: span(limits.Calls.Grace), EndGrace: c.Grace, Advice: sandboxAdvice, SecretAdvice: secretAdvice}, data: data, isConfined: profile.Confines(), workspaces: w}
	programs := shell.Programs{}
	if s.isConfined {
		programs = shell.UserPrograms(data)
		s.config.HomesDir, s.config.Env = filepath.Join(data, backup.HomeFolder), programs.Env
	}
	under := func(profile supervise.Profile) func() (supervise.Runner, error) {
		return sync.OnceValues(func() (supervise.Runner, error) {
			return supervise.New(supervise.Config{Profile: profile, Unsafe: c.Unsafe, Limits: sandboxLimits(limits.Sandbox),
				Reads: slices.Concat(c.Reads, programs.Reads)})
		})
	}
	s.begin = under(profile)
	if s.offline = s.begin; s.isConfined {
		s.offline = under(supervise.ProfileIsolated)
	}
	s.Bash, err = shell.New(s.config)
	return s, err
}

func (s *sandboxedRunner) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	return s.RunBackground(ctx, call, env, env.Report())
}

func (s *sandboxedRunner) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	folder, err := s.workspaces.folder(ctx, call.Session)
	if err != nil {
		return refused(tool.Internal(err))
	}
	if folder == "" {
		return refused(tool.Error("This session has no workspace to run commands in."))
	}
	if s.isConfined && containsPath(folder, s.data) {
		return refused(tool.Error("Commands cannot run, because the workspace of this session contains the data directory of perdure, which they could change. " +
			"An operator can start a session with another workspace, or move the data directory."))
	}
	begin := s.begin
	if !s.hasNetwork(env.Network) {
		begin = s.offline
	}
	config := s.config
	if config.Runner, err = begin(); err != nil {
		s.workspaces.log.Warn("command refused", "session", call.Session, "call", call.ID, "error", err)
		return refused(tool.Error("Commands cannot run here: " + err.Error()))
	}
	config.Dir = folder
	bash, err := shell.New(config)
	if err != nil {
		return refused(tool.Internal(err))
	}
	return bash.RunBackground(ctx, call, env, sink)
}

// hasNetwork reports whether a session has unrestricted network access. A command with network
// access can reach everything, so that with any restriction it gets none. Unreadable rules count as
// a restriction.
func (s *sandboxedRunner) hasNetwork(list perdure.NetworkList) bool {
	rules, err := egress.ReadRules(filepath.Join(s.data, egress.RulesFile))
	return err == nil && len(list.Allowed)+len(list.Blocked)+len(rules.Allowed)+len(rules.Blocked) == 0
}

// containsPath reports whether path is folder or inside it, after resolving symbolic links.
func containsPath(folder, path string) bool {
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
