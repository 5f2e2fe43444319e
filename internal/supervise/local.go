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

// entered says whether this program calls Entry. It is a fact about the program, like its name, and hence global.
var entered atomic.Bool

// Config says how Local starts supervisors. The zero value is usable in a program that calls Entry first in main.
type Config struct {
	// Supervisor is the program to run as the supervisor; it must call Entry. Empty means this very executable, also
	// when its file has been replaced since.
	Supervisor string
	// Host names this machine in records, and must stay the same over restarts. Empty means os.Hostname.
	Host string
	// StartTimeout bounds how long Start waits for the supervisor to take its ticket; then it is revoked. Zero means 30 s: a machine that is busy syncing is slow to start anything.
	StartTimeout time.Duration

	// Profile confines every command; the zero value confines none.
	Profile Profile
	// Unsafe lets commands run where this machine cannot keep the profile, with what it can keep; a run's Record says what.
	Unsafe bool
	// Limits bound what each confined command uses up. The zero value of each is a default.
	Limits Limits
	// Reads are folders and files that confined commands may read and execute besides those of the system.
	Reads []string
}

// Local runs commands under supervisors on this machine. It has no goroutines and needs no closing.
//
// Two limits. A service manager that kills by cgroup kills supervisors too: a systemd unit needs KillMode=process. And
// where the supervisor itself gets SIGKILL, a daemon of the command that made itself a session and has lost its parent
// cannot be told from any other, and lives on, and so does what a command had started before its supervisor, killed in the
// moment after the start, could note its pid; with its supervisor alive nothing gets away.
type Local struct {
	supervisor   string
	machine      machine
	startTimeout time.Duration
	sandbox      sandbox.Config

	mu       sync.Mutex
	children map[int]bool // guarded by mu: supervisors that we started and have not reaped, by pid
}

var _ Runner = (*Local)(nil)

// New checks c and finds out on which machine we are.
//
// Unsupported: this is no Linux, or /proc is missing. A Config without Supervisor in a program that never called Entry
// is refused, because the program would start itself again instead of a supervisor. Unenforceable: the profile was tried,
// and this machine cannot keep it.
func New(c Config) (*Local, error) {
	if c.Supervisor == "" {
		if !entered.Load() {
			return nil, errors.New("supervise: this program does not call supervise.Entry first in main: " +
				"call it there, or name another program in Config.Supervisor")
		}
		c.Supervisor = selfProgram
	}
	if err := sandbox.Try(c.Supervisor, c.sandboxed()); err != nil {
		return nil, fmt.Errorf("supervise: %w", err)
	}
	m, err := thisMachine(c.Host)
	if err != nil {
		return nil, fmt.Errorf("supervise: learn about this machine: %w", err)
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = 30 * time.Second
	}
	l := &Local{supervisor: c.Supervisor, machine: m, startTimeout: c.StartTimeout, sandbox: c.sandboxed(), children: map[int]bool{}}
	return l, nil
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
	reached(dir, "runtime prepared")
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
	remains, run, err := l.look(ctx, dir, state)
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
			return nil // somebody removed it while we walked
		}
		if err != nil || !e.IsDir() {
			return err
		}
		state, err := ticketState(path)
		if err != nil || state == "" {
			return err
		}
		f := Found{Dir: path}
		f.Remains, f.Run, f.Err = l.look(ctx, path, state)
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

// look turns the state of the ticket into an answer, and changes nothing.
func (l *Local) look(ctx context.Context, dir, state string) (Remains, Run, error) {
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
	// Without a record: nobody is alive, but a supervisor whose disk failed may still have left an exit.
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

// awaitRecord reads the record of a run that was started. Between the rename of the ticket and that of the record lies
// a moment, which a busy machine can make long; the supervisor's draft, older than both, shows that it is still there.
//
// An error of kind fs.ErrNotExist means that there is no record and nobody left to write it.
func (l *Local) awaitRecord(ctx context.Context, dir string) (Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, recordWait,
		fmt.Errorf("its supervisor has had the ticket for %v and has written no record; is it stopped?", recordWait))
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

// recordWait bounds the wait for a supervisor which has renamed its ticket and not yet its record.
const recordWait = 10 * time.Second

// drafted reports whether a living supervisor has a draft of a record in dir.
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

// alive reports whether the supervisor of rec runs, here and now. A process of another machine, boot or pid namespace
// is not ours, whatever its pid.
func (l *Local) alive(rec Record) bool {
	return l.machine.wrote(rec) && processAlive(rec.PID, rec.StartTime)
}

// kill ends what the dead supervisor of dir left behind, where it can be proved to be the command's.
func (l *Local) kill(ctx context.Context, dir string) error {
	rec, err := readRecord(dir) // again, for the pid of the command was added to it late
	if errors.Is(err, fs.ErrNotExist) || err == nil && !l.machine.wrote(rec) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, killWait,
		fmt.Errorf("processes of the command are still there %v after SIGKILL", killWait))
	defer cancel()
	return killRemains(ctx, rec)
}

// killWait bounds the wait for processes that were sent SIGKILL.
const killWait = 5 * time.Second

// reap collects the supervisors that were our children and have ended, so that no zombie stays behind.
func (l *Local) reap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pid := range l.children {
		if ended, _ := reapChild(pid); ended {
			delete(l.children, pid)
		}
	}
}

// machine is where pids mean something.
type machine struct{ host, bootID, pidNamespace string }

func (m machine) wrote(rec Record) bool {
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
