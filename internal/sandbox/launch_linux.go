package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// selfProgram is this executable, so that a stage has the version of its supervisor.
const selfProgram = "/proc/self/exe"

// stageVariable is the environment variable that makes a process a stage; its value says which.
const stageVariable = "PERDURE_SANDBOX_STAGE"

// The descriptors of a stage. The standard streams are the command's.
const (
	orderFD  = 3
	reportFD = 4
)

// message is a report of a stage: one JSON value after another, until the exec closes the pipe.
type message struct {
	Enforced []string `json:"enforced,omitempty"` // the sandbox is applied; only the exec is left
	Started  bool     `json:"started,omitempty"`  // the command runs under an init
	Status   *uint32  `json:"status,omitempty"`   // the command's wait status, reported by its init
	Refused  string   `json:"refused,omitempty"`
	Code     int      `json:"code,omitempty"` // with Refused
}

// Child is a confined command, or the init above it.
type Child struct {
	PID      int
	Enforced []string // what is in force, in words
	// Ends receives the status of the command if PID is that of an init, and is closed when the
	// init has ended. Nil: PID is that of the command.
	Ends <-chan syscall.WaitStatus
}

// Launch starts a confined command in its own process group, with std as its standard streams. The
// command dies with the calling thread, which the caller must therefore lock. The caller must wait
// for the child, even if Launch fails after the fork.
//
// The error is a *Refusal if the stage reported why the command was not executed; the Child then
// still has its pid.
func Launch(o Order, std [3]uintptr) (*Child, error) { return launch("", o, std) }

// launch is Launch with another program; empty means this one. On a machine without namespaces an
// Unsafe order for Isolated gets what Workspace has.
func launch(program string, o Order, std [3]uintptr) (*Child, error) {
	child, err := launchOnce(program, o, std)
	if err == nil || o.Profile != Isolated || !o.Unsafe || !lacksNamespaces(err) {
		return child, err
	}
	if child != nil {
		_, _ = syscall.Wait4(child.PID, nil, syscall.WALL, nil)
	}
	o.Profile, o.View = Workspace, NoView
	return launchOnce(program, o, std)
}

// lacksNamespaces reports whether the machine cannot enforce the profile, in contrast to a command
// that cannot be executed.
func lacksNamespaces(err error) bool {
	var refusal *Refusal
	return errors.Is(err, Unenforceable) || errors.As(err, &refusal) && strings.HasPrefix(refusal.Text, Unenforceable.Error())
}

func launchOnce(program string, o Order, std [3]uintptr) (*Child, error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stage := "stage"
	if o.Profile == Isolated {
		stage = "init"
	}
	if o.HasView() {
		useNamespaces(sys, o)
		o.Sockets = readableSockets(o)
	}
	o.Parent = os.Getpid()
	s, err := spawn(stageStart{program: program, stage: stage, std: std, sys: sys}, o)
	if err != nil {
		switch {
		case o.Profile == Isolated:
			err = fmt.Errorf("%w: the profile needs user, pid, mount, network, IPC and host name namespaces: %w", Unenforceable, err)
		case o.HasView():
			err = fmt.Errorf("%w: the command's own file system needs mount and IPC namespaces: %w", Unenforceable, err)
		}
		return nil, err
	}
	child, err := s.await()
	if err != nil {
		s.report.Close()
		return &Child{PID: s.pid}, err
	}
	if o.Profile != Isolated || o.Trial {
		s.report.Close()
		return child, nil
	}
	// Capacity 1: at most one status is sent, and it may have no receiver.
	ends := make(chan syscall.WaitStatus, 1)
	child.Ends = ends
	go s.awaitStatus(ends) // ends with the init, which the caller waits for
	return child, nil
}

// readableSockets returns the local sockets of this machine that the command could reach in what it
// may read: a read-only mount does not prevent a connection. Those of the workspace belong to it.
func readableSockets(o Order) [][]byte {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil // without the table there are none
	}
	names := map[string]bool{} // each connection repeats the name of its listener
	for line := range strings.Lines(string(table)) {
		_, name, _ := strings.Cut(line, " /") // the last column; the others contain no slash
		names[strings.TrimSuffix(name, "\n")] = name != ""
	}
	var reads []string
	for _, dir := range append(systemPaths(), o.Reads...) {
		reads = append(reads, realOr(dir))
	}
	var found [][]byte
	for name, isPath := range names {
		path, err := filepath.EvalSymlinks("/" + name)
		if !isPath || err != nil || within(string(o.Workspace), path) {
			continue
		}
		if slices.ContainsFunc(reads, func(dir string) bool { return within(dir, path) }) {
			found = append(found, []byte(path))
		}
	}
	return found
}

// realOr returns the real path, or the path itself if it does not exist.
func realOr(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// useNamespaces requests new namespaces. The user keeps its id, so that files have the same owner
// inside and outside. The stage gets its capabilities as ambient ones, which survive the exec even
// if the user is not root. Root needs no user namespace for a view, and keeps the ids of all users
// without one.
func useNamespaces(sys *syscall.SysProcAttr, o Order) {
	const setpcap, netAdmin, sysAdmin, sysResource = 8, 12, 21, 24
	sys.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	if o.Profile == Isolated {
		sys.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS
	} else if o.View == ViewOfRoot {
		return
	}
	sys.Cloneflags |= syscall.CLONE_NEWUSER
	uid, gid := os.Geteuid(), os.Getegid()
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	sys.AmbientCaps = []uintptr{setpcap, netAdmin, sysAdmin, sysResource}
}

// stageProcess is a stage that has received its order.
type stageProcess struct {
	pid    int
	report *os.File
	decode *json.Decoder
}

// stageStart says how to start a stage.
type stageStart struct {
	program string // empty: this one
	stage   string
	std     [3]uintptr
	sys     *syscall.SysProcAttr
}

// spawn starts a stage and sends it its order.
func spawn(how stageStart, o Order) (*stageProcess, error) {
	if how.program == "" {
		how.program = selfProgram
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orderR.Close()
	defer orderW.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reportW.Close()
	pid, err := syscall.ForkExec(how.program, []string{"perdure-sandbox"}, &syscall.ProcAttr{
		Dir: "/", Env: []string{stageVariable + "=" + how.stage, "GOMAXPROCS=1"},
		Files: []uintptr{how.std[0], how.std[1], how.std[2], orderR.Fd(), reportW.Fd()},
		Sys:   how.sys,
	})
	if err != nil {
		reportR.Close()
		return nil, fmt.Errorf("start a stage: %w", err)
	}
	orderR.Close() // otherwise a dead stage would block our write for ever
	if _, err := orderW.Write(b); err != nil && !errors.Is(err, syscall.EPIPE) {
		reportR.Close()
		return nil, fmt.Errorf("write order: %w", err)
	}
	return &stageProcess{pid: pid, report: reportR, decode: json.NewDecoder(reportR)}, nil
}

// await returns when the command runs. The end of the report means that only after the stage has
// reported that the sandbox is applied: a stage that died before has not reported it.
func (s *stageProcess) await() (*Child, error) {
	c := &Child{PID: s.pid}
	for {
		var m message
		err := s.decode.Decode(&m)
		switch {
		case errors.Is(err, io.EOF) && c.Enforced != nil:
			return c, nil
		case err != nil:
			return nil, &Refusal{Code: cannotExecute, Text: "the sandbox stage died before the sandbox was complete"}
		case m.Refused != "":
			return nil, &Refusal{Code: m.Code, Text: m.Refused}
		case m.Enforced != nil:
			c.Enforced = m.Enforced
		case m.Started:
			return c, nil
		}
	}
}

// awaitStatus reads the remaining report of an init.
func (s *stageProcess) awaitStatus(ends chan<- syscall.WaitStatus) {
	defer s.report.Close()
	defer close(ends)
	var m message
	if err := s.decode.Decode(&m); err == nil && m.Status != nil {
		ends <- syscall.WaitStatus(*m.Status)
	}
}
