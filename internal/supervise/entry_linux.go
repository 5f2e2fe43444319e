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

// dirVariable names the run directory to a new supervisor, and makes it one.
const dirVariable = "PERDURE_SUPERVISE"

// Entry returns at once, unless this process was started as a supervisor, or as the stage of a sandbox below one: then
// it becomes that and never returns.
//
// Call it first in main, and in TestMain, before any other set-up: whatever runs before it runs in every supervisor.
func Entry() {
	sandbox.Entry()
	entered.Store(true)
	dir := os.Getenv(dirVariable)
	if dir == "" {
		return
	}
	// Without the exit hooks of the host program: it was never set up, and under -race they take a second.
	syscall.Exit(superviseRun(dir))
}

// superviseRun is the life of a supervisor. What goes wrong before it has the ticket is told on stderr and by the exit
// status; from then on the exit record tells.
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
	return s.leave(s.supervise())
}

// newSupervisor makes this process fit for the task and opens what the command needs, all before the ticket is taken:
// what fails here has started nothing.
func newSupervisor(dir string) (*supervisor, error) {
	debug.SetGCPercent(20)
	s := &supervisor{
		dir:  dir,
		asks: make(chan os.Signal, 1),
		wake: make(chan os.Signal, 1),
	}
	// Before anybody can know our pid. SIGHUP and SIGQUIT only wake us: nothing but SIGKILL ends us before the command.
	signal.Notify(s.asks, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(s.wake, syscall.SIGCHLD, syscall.SIGHUP, syscall.SIGQUIT)
	if err := closeInherited(); err != nil {
		return nil, fmt.Errorf("close inherited descriptors: %w", err)
	}
	if err := becomeSubreaper(); err != nil {
		return nil, fmt.Errorf("become child subreaper: %w", err)
	}
	// For ps and top; without it we are called exe. Of no other consequence.
	_ = os.WriteFile("/proc/self/comm", []byte("perdure-run"), 0)
	path := filepath.Join(dir, commandName)
	var f commandFile
	switch err := readJSON(path, &f); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err // with its ticket it went, when it was revoked
	case err != nil:
		return nil, err
	case f.Version != version && f.Version != confinedVersion, (f.Version == confinedVersion) != (f.Sandbox != nil):
		return nil, fmt.Errorf("%s has version %d, this program knows %d", path, f.Version, confinedVersion)
	}
	s.command, s.host, s.sandbox = f.command(), f.Host, f.Sandbox
	if err := s.command.Check(); err != nil {
		return nil, err
	}
	return s, s.openStreams()
}

// takeTicket is the start: before it nothing has happened, after it the command runs or an exit record says why not. An
// error of kind fs.ErrNotExist means that the ticket was revoked or used.
func (s *supervisor) takeTicket() error {
	rec, err := s.newRecord()
	if err != nil {
		return err
	}
	draft, err := writeDraft(s.dir, recordName, rec)
	if err != nil {
		return err
	}
	reached(s.dir, "supervisor before ticket")
	if err := os.Rename(s.path(ticketName), s.path(startedName)); err != nil {
		return errors.Join(err, removeFile(draft))
	}
	reached(s.dir, "supervisor has ticket")
	s.rec = rec
	// Both renames reach the disk before the command begins: after a loss of power, a ticket that came back would say
	// that nothing was started.
	s.broken = errors.Join(os.Rename(draft, s.path(recordName)), syncDir(s.dir), removeFile(s.path(commandName)))
	reached(s.dir, "supervisor recorded")
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

// becomeSubreaper makes every orphan of the command's tree a child of ours, so that none can get away.
func becomeSubreaper() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER, prctl(2)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// closeInherited closes what came from our parent besides the standard streams. All that Go has opened here is
// close-on-exec, so what is not was inherited: a lock, perhaps, that must not live as long as we do.
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
