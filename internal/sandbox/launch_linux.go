package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// selfProgram is this executable: a stage is as old as its supervisor.
const selfProgram = "/proc/self/exe"

// stageVariable makes a process a stage; its value says which.
const stageVariable = "PERDURE_SANDBOX_STAGE"

// Where a stage finds what it needs. The standard streams are the command's.
const (
	orderFD  = 3
	reportFD = 4
)

// message is what a stage reports: one JSON value after another, until the exec closes the pipe.
type message struct {
	Enforced []string `json:"enforced,omitempty"` // everything is on; what is left is the exec
	Started  bool     `json:"started,omitempty"`  // the command runs under an init
	Status   *uint32  `json:"status,omitempty"`   // the command's wait status, told by its init
	Refused  string   `json:"refused,omitempty"`
	Code     int      `json:"code,omitempty"` // with Refused
}

// Child is a confined command, or the init above it.
type Child struct {
	PID      int
	Enforced []string // what is in force, in words
	// Ends brings the status of the command where PID is an init's, and is closed when the init is gone. Nil: PID is the
	// command's own.
	Ends <-chan syscall.WaitStatus
}

// Launch starts a confined command in a process group of its own, with std as its standard streams. It dies with the
// thread that calls: lock it. The child is the caller's to wait for, also where Launch fails after the fork.
//
// The error is a *Refusal where the stage said why, and then nothing was executed; the Child has its number all the same.
func Launch(o Order, std [3]uintptr) (*Child, error) { return launch("", o, std) }

// launch is Launch with another program; empty is this one. Where a machine has no namespaces, and the order is Unsafe, the
// command gets what Workspace has.
func launch(program string, o Order, std [3]uintptr) (*Child, error) {
	child, err := launchOnce(program, o, std)
	if err == nil || o.Profile != Isolated || !o.Unsafe || !lacksNamespaces(err) {
		return child, err
	}
	if child != nil {
		_, _ = syscall.Wait4(child.PID, nil, syscall.WALL, nil)
	}
	o.Profile = Workspace
	return launchOnce(program, o, std)
}

// lacksNamespaces tells a machine that cannot keep the profile from a command that cannot be executed.
func lacksNamespaces(err error) bool {
	var refusal *Refusal
	return errors.Is(err, Unenforceable) || errors.As(err, &refusal) && strings.HasPrefix(refusal.Text, Unenforceable.Error())
}

func launchOnce(program string, o Order, std [3]uintptr) (*Child, error) {
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stage := "stage"
	if o.Profile == Isolated {
		stage = "init"
		apart(sys)
	}
	o.Parent = os.Getpid()
	s, err := spawn(start{program: program, stage: stage, std: std, sys: sys}, o)
	if err != nil {
		if o.Profile == Isolated {
			err = fmt.Errorf("%w: it needs user, pid, mount, network, IPC and host name namespaces: %w", Unenforceable, err)
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
	ends := make(chan syscall.WaitStatus, 1) // one status ever comes, and nobody may be there to take it
	child.Ends = ends
	go s.awaitStatus(ends) // ends with the init, whose end the caller waits for
	return child, nil
}

// apart asks for namespaces of its own. The user keeps its number, so that files look the same inside and outside; what
// the init needs of capabilities in there comes as ambient ones, which survive the exec also of a user that is not root.
func apart(sys *syscall.SysProcAttr) {
	const setpcap, netAdmin, sysAdmin, sysResource = 8, 12, 21, 24
	uid, gid := os.Geteuid(), os.Getegid()
	sys.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	sys.AmbientCaps = []uintptr{setpcap, netAdmin, sysAdmin, sysResource}
}

// spawned is a stage that was given its order.
type spawned struct {
	pid    int
	report *os.File
	decode *json.Decoder
}

// start is how a stage is started.
type start struct {
	program string // empty: this one
	stage   string
	std     [3]uintptr
	sys     *syscall.SysProcAttr
}

// spawn starts a stage and hands it its order.
func spawn(how start, o Order) (*spawned, error) {
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
	orderR.Close() // or a stage that died would leave us writing for ever
	if _, err := orderW.Write(b); err != nil && !errors.Is(err, syscall.EPIPE) {
		reportR.Close()
		return nil, fmt.Errorf("write order: %w", err)
	}
	return &spawned{pid: pid, report: reportR, decode: json.NewDecoder(reportR)}, nil
}

// await returns when the command runs. The end of the report says so only behind the word that everything is on: a stage
// that died has no such word.
func (s *spawned) await() (*Child, error) {
	c := &Child{PID: s.pid}
	for {
		var m message
		err := s.decode.Decode(&m)
		switch {
		case errors.Is(err, io.EOF) && c.Enforced != nil:
			return c, nil
		case err != nil:
			return nil, &Refusal{Code: cannotExecute, Text: "the sandbox was not finished: its stage died"}
		case m.Refused != "":
			return nil, &Refusal{Code: m.Code, Text: m.Refused}
		case m.Enforced != nil:
			c.Enforced = m.Enforced
		case m.Started:
			return c, nil
		}
	}
}

// awaitStatus reads what an init has left to say.
func (s *spawned) awaitStatus(ends chan<- syscall.WaitStatus) {
	defer s.report.Close()
	defer close(ends)
	var m message
	if err := s.decode.Decode(&m); err == nil && m.Status != nil {
		ends <- syscall.WaitStatus(*m.Status)
	}
}
