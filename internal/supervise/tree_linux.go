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

// start executes the command in a process group of its own. The status is what a shell would give for the error.
func (s *supervisor) start() (int, error) {
	const cannotExecute, notFound = 126, 127
	if s.broken != nil {
		return cannotExecute, fmt.Errorf("record the start: %w", s.broken)
	}
	if st, err := os.Stat(s.command.Dir); err != nil || !st.IsDir() {
		return cannotExecute, fmt.Errorf("working directory %q is no directory", s.command.Dir)
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
		return notFound, fmt.Errorf("program %q, or the interpreter that it names, does not exist", program)
	case err != nil:
		return cannotExecute, fmt.Errorf("execute %q: %w", program, err)
	}
	s.rec.CommandPID = pid
	reached(s.dir, "supervisor executed")
	return 0, nil
}

// findProgram looks a bare name up in the PATH of the command's own environment. What is relative starts from the
// command's directory.
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
	return "", fmt.Errorf("program %q is in no directory of the command's PATH %q", name, path)
}

// reap collects every child that has ended: the command, and the orphans of its tree.
func (s *supervisor) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			// As we are the subreaper, who has no child has no descendant.
			s.childless = true
			return
		case err != nil || pid == 0:
			return
		case pid == s.rec.CommandPID:
			s.settle(ws)
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

// group returns those processes of the tree that are in the command's process group.
func (s *supervisor) group() []process {
	if s.childless {
		return nil
	}
	var group []process
	for _, p := range s.tree() {
		if p.group == s.rec.CommandPID {
			group = append(group, p)
		}
	}
	return group
}

func (s *supervisor) groupLives() bool { return len(s.group()) > 0 }

// signalGroup signals the command's process group. Once its leader was reaped, the number may belong to somebody else,
// and the processes are signalled one by one.
func (s *supervisor) signalGroup(sig syscall.Signal) {
	if !s.ended {
		_ = syscall.Kill(-s.rec.CommandPID, sig) // fails only where it has just ended
		return
	}
	for _, p := range s.group() {
		s.signal(p, sig)
	}
}

func (s *supervisor) signal(p process, sig syscall.Signal) {
	if err := signalProcess(p.pid, p.start, sig); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
	}
}

// killTree returns when no process of the tree is left. It has no time limit: what survives SIGKILL hangs in the kernel,
// and a run whose tree is not gone has not ended.
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
