package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/perdure/perdure/internal/sandbox"
)

// dirVariable is the environment variable that passes the run directory to a new supervisor. Its
// presence makes the process one.
const dirVariable = "PERDURE_SUPERVISE"

// Entry returns immediately, unless this process was started as a supervisor or as the stage of a
// sandbox below one; then Entry runs as that and never returns.
//
// Call it first in main and in TestMain, before any other set-up: code that runs before it runs in
// every supervisor.
func Entry() {
	sandbox.Entry()
	entered.Store(true)
	dir := os.Getenv(dirVariable)
	if dir == "" {
		return
	}
	// Skip the exit hooks of the host program: it was never set up, and under -race they take a
	// second.
	syscall.Exit(superviseRun(dir))
}

// superviseRun is the main function of a supervisor. Errors before it has the ticket go to stderr
// and the exit status; later ones into the exit record.
func superviseRun(dir string) int {
	s, err := newSupervisor(dir)
	if err == nil {
		err = s.takeTicket()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exitNoTicket
	case err != nil:
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1
	}
	return s.writeExit(s.supervise())
}

// newSupervisor prepares this process and opens what the command needs. All of it happens before
// the ticket is taken, so that a failure here means that nothing was started.
func newSupervisor(dir string) (*supervisor, error) {
	debug.SetGCPercent(20)
	s := &supervisor{
		dir:         dir,
		stopSignals: make(chan os.Signal, 1),
		wake:        make(chan os.Signal, 1),
	}
	// First, before any other process can know our pid. SIGHUP and SIGQUIT only wake us: only
	// SIGKILL can end us before the command.
	signal.Notify(s.stopSignals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(s.wake, syscall.SIGCHLD, syscall.SIGHUP, syscall.SIGQUIT)
	secrets, err := readSecrets()
	if err != nil {
		return nil, fmt.Errorf("receive the secrets: %w", err)
	}
	if err := closeInherited(); err != nil {
		return nil, fmt.Errorf("close inherited descriptors: %w", err)
	}
	if err := becomeSubreaper(); err != nil {
		return nil, fmt.Errorf("become child subreaper: %w", err)
	}
	// The name in ps and top, which would otherwise be exe.
	_ = os.WriteFile("/proc/self/comm", []byte("perdure-run"), 0)
	path := filepath.Join(dir, commandName)
	var f commandFile
	switch err := readJSON(path, &f); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err // the command file was removed when the ticket was revoked
	case err != nil:
		return nil, err
	case f.Version != version && f.Version != confinedVersion, (f.Version == confinedVersion) != (f.Sandbox != nil):
		return nil, fmt.Errorf("%s has version %d, this program supports up to %d", path, f.Version, confinedVersion)
	}
	s.command, s.host, s.sandbox = f.command(), f.Host, f.Sandbox
	s.command.Env = append(s.command.Env, secrets...)
	if err := s.command.Check(); err != nil {
		return nil, err
	}
	return s, s.openStreams()
}

// takeTicket renames the ticket, which starts the run: before it nothing has happened; after it the
// command runs, or an exit record says why not. An error of kind fs.ErrNotExist means that the
// ticket was revoked or used.
func (s *supervisor) takeTicket() error {
	rec, err := s.newRecord()
	if err != nil {
		return err
	}
	draft, err := writeDraft(s.dir, recordName, rec)
	if err != nil {
		return err
	}
	onStep(s.dir, "supervisor before ticket")
	if err := os.Rename(s.path(ticketName), s.path(startedName)); err != nil {
		return errors.Join(err, removeFile(draft))
	}
	onStep(s.dir, "supervisor has ticket")
	s.rec = rec
	// Both renames reach the disk before the command starts. If a power loss restored the ticket,
	// it would claim that nothing was started.
	s.startError = errors.Join(os.Rename(draft, s.path(recordName)), syncDir(s.dir), removeFile(s.path(commandName)))
	onStep(s.dir, "supervisor recorded")
	return nil
}

func (s *supervisor) newRecord() (Record, error) {
	m, err := thisMachine(s.host)
	if err != nil {
		return Record{}, err
	}
	self, ok := readProcess(os.Getpid())
	if !ok {
		return Record{}, errors.New("/proc does not show this process")
	}
	return Record{
		Version: version, Host: m.host, BootID: m.bootID, PIDNamespace: m.pidNamespace,
		PID: self.pid, StartTime: self.start,
		Program: s.command.Argv[0], StartedAt: now(),
	}, nil
}

// becomeSubreaper makes this process the parent of every orphan in the command's tree, so that none
// escapes.
func becomeSubreaper() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER, prctl(2)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// closeInherited closes the descriptors inherited from our parent except for the standard streams.
// Go opens everything close-on-exec, so a descriptor without that flag was inherited. It could be a
// lock, which must not be held as long as we run.
func closeInherited() error {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			syscall.Close(fd)
		}
	}
	return nil
}
