package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/sandbox"
)

// entered reports whether this program calls Entry. It is a property of the program, hence global.
var entered atomic.Bool

// Config configures a Local. The zero value is usable in a program that calls Entry first in main.
type Config struct {
	// Supervisor is the program to run as the supervisor; it must call Entry. Empty means the
	// current executable, even if its file has been replaced since.
	Supervisor string
	// Host names this machine in records, and must stay the same across restarts. Empty means
	// os.Hostname.
	Host string
	// StartTimeout limits how long Start waits for the supervisor to take its ticket; then the
	// ticket is revoked. Zero means 30 s, since a machine that is busy syncing starts processes
	// slowly.
	StartTimeout time.Duration

	// Profile confines every command; the zero value confines none.
	Profile Profile
	// Unsafe allows commands to run although this machine cannot enforce the whole profile; a run's
	// Record says what is enforced.
	Unsafe bool
	// Limits are the resource limits of each confined command. The zero value of a limit means its
	// default.
	Limits Limits
	// Reads are directories and files that confined commands may read and execute besides those of
	// the system.
	Reads []string
}

// Local runs commands under supervisors on this machine. It has no goroutines and needs no closing.
//
// It has two limits. A service manager that kills by cgroup kills supervisors, too, so a systemd
// unit needs KillMode=process. And if the supervisor itself is killed with SIGKILL, some processes
// cannot be proved to belong to the command and keep running: a daemon that created its own session
// and has lost its parent, and everything that the command had started if the supervisor was killed
// right after the start, before it could record the command's pid. While the supervisor is alive,
// no process escapes.
type Local struct {
	supervisor   string
	machine      machine
	startTimeout time.Duration
	sandbox      sandbox.Config
	view         sandbox.View // of commands under ProfileWorkspace

	mu       sync.Mutex
	children map[int]bool // guarded by mu: unreaped supervisors that we started, by pid
}

var _ Runner = (*Local)(nil)

// New checks c and identifies this machine.
//
// Unsupported: this is not Linux, or /proc is missing. Unenforceable: the profile was tried, and
// this machine cannot enforce it. A Config without Supervisor is refused in a program that never
// called Entry, because the program would start itself again instead of a supervisor.
func New(c Config) (*Local, error) {
	if c.Supervisor == "" {
		if !entered.Load() {
			return nil, errors.New("supervise: this program does not call supervise.Entry first in main: " +
				"call it there, or name another program in Config.Supervisor")
		}
		c.Supervisor = selfProgram
	}
	view, err := sandbox.Try(c.Supervisor, c.sandboxConfig())
	if err != nil {
		return nil, fmt.Errorf("supervise: %w", err)
	}
	m, err := thisMachine(c.Host)
	if err != nil {
		return nil, fmt.Errorf("supervise: identify this machine: %w", err)
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = 30 * time.Second
	}
	return &Local{
		supervisor: c.Supervisor, machine: m, startTimeout: c.StartTimeout,
		sandbox: c.sandboxConfig(), view: view, children: map[int]bool{},
	}, nil
}

// Prepare implements Runner.
func (l *Local) Prepare(ctx context.Context, dir string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = prepare(dir)
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", dir, err)
	}
	onStep(dir, "runtime prepared")
	return nil
}

// Find implements Runner.
func (l *Local) Find(ctx context.Context, dir string) (Remains, Run, error) {
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	l.reap()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, nil, fmt.Errorf("find %s: %w", dir, err)
	}
	state, err := revoke(dir)
	if err != nil {
		return 0, nil, fmt.Errorf("find %s: %w", dir, err)
	}
	remains, run, err := l.stateOf(ctx, dir, state)
	if remains == Gone {
		err = l.kill(ctx, dir)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("find %s: %w", dir, err)
	}
	return remains, run, nil
}

// List implements Runner.
func (l *Local) List(ctx context.Context, root string) ([]Found, error) {
	l.reap()
	var all []Found
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we walked
		}
		if err != nil || !e.IsDir() {
			return err
		}
		state, err := ticketState(path)
		if err != nil || state == "" {
			return err
		}
		f := Found{Dir: path}
		f.Remains, f.Run, f.Err = l.stateOf(ctx, path, state)
		all = append(all, f)
		return fs.SkipDir
	})
	if err != nil {
		return nil, fmt.Errorf("list runs under %s: %w", root, err)
	}
	return all, nil
}

// Remove implements Runner.
func (l *Local) Remove(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	switch remains, _, err := l.Find(ctx, dir); {
	case err != nil:
		return fmt.Errorf("remove: %w", err)
	case remains == Alive:
		return fmt.Errorf("remove %s: %w", dir, Running)
	}
	if err := removeRun(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// stateOf turns the state of the ticket into an answer, without changing anything.
func (l *Local) stateOf(ctx context.Context, dir, state string) (Remains, Run, error) {
	switch state {
	case "":
		return Absent, nil, nil
	case ticketName:
		return Prepared, nil, nil
	case revokedName:
		return Revoked, nil, nil
	}
	rec, err := l.awaitRecord(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, nil, err
	}
	// Without a record no supervisor is alive, but one whose disk failed may still have left an
	// exit record.
	run := &localRun{local: l, dir: dir, rec: rec}
	switch _, ended, err := run.end(); {
	case errors.Is(err, Vanished):
		return Gone, nil, nil
	case err != nil:
		return 0, nil, err
	case ended:
		return Ended, run, nil
	}
	return Alive, run, nil
}

// awaitRecord reads the record of a run that was started. Between the renames of the ticket and of
// the record there is a moment, which can be long on a busy machine. The supervisor's draft of the
// record, which is older than both renames, shows that the supervisor is still there.
//
// An error of kind fs.ErrNotExist means that there is no record and no supervisor left to write it.
func (l *Local) awaitRecord(ctx context.Context, dir string) (Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, recordWait,
		fmt.Errorf("the supervisor took the ticket, but wrote no record within %v; it may be suspended", recordWait))
	defer cancel()
	var p pace
	for {
		drafted := l.drafted(dir)
		rec, err := readRecord(dir)
		if !errors.Is(err, fs.ErrNotExist) || !drafted {
			return rec, err
		}
		if err := p.next(ctx); err != nil {
			return Record{}, err
		}
	}
}

// recordWait limits the wait for a supervisor that has renamed its ticket but not yet its record.
const recordWait = 10 * time.Second

// drafted reports whether a running supervisor has a draft of a record in dir.
func (l *Local) drafted(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if ok, _ := filepath.Match(draftPattern(recordName), e.Name()); !ok {
			continue
		}
		if rec, err := readRecordFile(filepath.Join(dir, e.Name())); err == nil && l.alive(rec) {
			return true
		}
	}
	return false
}

// alive reports whether the supervisor of rec is running here and now. A process of another
// machine, boot or pid namespace is a different one, even with the same pid.
func (l *Local) alive(rec Record) bool {
	return l.machine.isOwn(rec) && processAlive(rec.PID, rec.StartTime)
}

// kill ends what the dead supervisor of dir left behind, as far as it provably belongs to the
// command.
func (l *Local) kill(ctx context.Context, dir string) error {
	rec, err := readRecord(dir) // read again, since the pid of the command is added late
	if errors.Is(err, fs.ErrNotExist) || err == nil && !l.machine.isOwn(rec) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, killWait,
		fmt.Errorf("processes of the command are still running %v after SIGKILL", killWait))
	defer cancel()
	return killRemains(ctx, rec)
}

// killWait limits the wait for processes that were sent SIGKILL.
const killWait = 5 * time.Second

// reap reaps the supervisors that we started and that have ended, so that no zombie remains.
func (l *Local) reap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pid := range l.children {
		if ended, _, _ := reapChild(pid); ended {
			delete(l.children, pid)
		}
	}
}

// machine is the scope in which a pid is unique.
type machine struct{ host, bootID, pidNamespace string }

func (m machine) isOwn(rec Record) bool {
	return m == machine{rec.Host, rec.BootID, rec.PIDNamespace}
}

func thisMachine(host string) (machine, error) {
	if host == "" {
		name, err := os.Hostname()
		if err != nil {
			return machine{}, err
		}
		host = name
	}
	boot, ns, err := bootAndNamespace()
	return machine{host, boot, ns}, err
}
