package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// start executes the command in its own process group. The int is the exit status that a shell
// would return for the error.
func (s *supervisor) start() (int, error) {
	const cannotExecute, notFound = 126, 127
	if s.startError != nil {
		return cannotExecute, fmt.Errorf("record the start: %w", s.startError)
	}
	if st, err := os.Stat(s.command.Dir); err != nil || !st.IsDir() {
		return cannotExecute, fmt.Errorf("working directory %q is not a directory", s.command.Dir)
	}
	program, err := findProgram(s.command)
	if err != nil {
		return notFound, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return cannotExecute, err
	}
	defer null.Close()
	if s.sandbox != nil {
		return s.startConfined(program, null)
	}
	pid, err := syscall.ForkExec(program, s.command.Argv, &syscall.ProcAttr{
		Dir: s.command.Dir, Env: s.command.Env,
		Files: []uintptr{null.Fd(), uintptr(s.pipes[0].wfd), uintptr(s.pipes[1].wfd)},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	switch {
	case errors.Is(err, syscall.ENOENT):
		return notFound, fmt.Errorf("program %q or its interpreter does not exist", program)
	case err != nil:
		return cannotExecute, fmt.Errorf("execute %q: %w", program, err)
	}
	s.rec.CommandPID = pid
	onStep(s.dir, "supervisor executed")
	return 0, nil
}

// findProgram looks up a bare name in the PATH of the command's own environment. Relative
// directories are relative to the command's directory.
func findProgram(c Command) (string, error) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	var path string
	for _, v := range c.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.Dir, dir)
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %q not found in the command's PATH %q", name, path)
}

// reap reaps every child that has ended: the command, and orphans of its tree.
func (s *supervisor) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			// We are the subreaper, so without children there are no descendants.
			s.childless = true
			return
		case err != nil || pid == 0:
			return
		case pid == s.rec.CommandPID:
			s.recordExit(ws)
		}
	}
}

// tree returns the running processes of the command's tree.
func (s *supervisor) tree() []process {
	all, err := processes()
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise: read process table:", err)
		return nil
	}
	self := os.Getpid()
	below := descendants(all, map[int]bool{self: true})
	var tree []process
	for _, p := range all {
		if below[p.pid] && p.pid != self && !p.dead() {
			tree = append(tree, p)
		}
	}
	return tree
}

// leaderReaped reports whether the process that leads the command's process group is gone. Then the
// group's number may be reused. Under an init it is the init that leads, which ends last.
func (s *supervisor) leaderReaped() bool { return s.ended && s.initPID == 0 || s.childless }

// signalGroup signals the command's process group at once, so that no process of it can be started
// in between. Once the leader is reaped, it does nothing.
func (s *supervisor) signalGroup(sig syscall.Signal) {
	if !s.leaderReaped() {
		_ = syscall.Kill(-s.rec.CommandPID, sig) // fails only if the command has just ended
	}
}

// terminateTree asks every process of the tree to end, as its own service manager would: those that
// made a group or a session of their own as well, and stopped ones, which can act only when they
// continue.
func (s *supervisor) terminateTree() {
	grouped := !s.leaderReaped()
	s.signalGroup(syscall.SIGTERM)
	s.signalGroup(syscall.SIGCONT)
	for _, p := range s.tree() {
		if grouped && p.group == s.rec.CommandPID || p.pid == s.initPID {
			continue
		}
		s.signal(p, syscall.SIGTERM)
		s.signal(p, syscall.SIGCONT)
	}
}

// noteLeft records what the command left behind.
func (s *supervisor) noteLeft() {
	for _, p := range s.tree() {
		if p.pid == s.initPID {
			continue
		}
		if s.leftCount++; s.leftCount <= maxLeft {
			s.left = append(s.left, LeftProcess{PID: innerPID(p.pid), Name: commandLine(p.pid)})
		}
	}
}

// maxLeft is how many processes an exit record names.
const maxLeft = 8

func (s *supervisor) signal(p process, sig syscall.Signal) {
	if err := signalProcess(p.pid, p.start, sig); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
	}
}

// killTree returns when no process of the tree is left. It has no time limit: a process that
// survives SIGKILL hangs in the kernel, and a run is not over before its tree is gone.
func (s *supervisor) killTree() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.reap(); !s.childless; s.reap() {
		s.signalGroup(syscall.SIGKILL)
		for _, p := range s.tree() {
			s.signal(p, syscall.SIGKILL)
		}
		timer.Reset(pollMin)
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}
