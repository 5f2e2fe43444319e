package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// selfProgram is this executable, even when its file was replaced or removed: a supervisor is as old as its runtime.
const selfProgram = "/proc/self/exe"

// process is a line of the process table (proc(5), /proc/PID/stat).
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
	start                       uint64 // clock ticks since boot
}

// dead says that p runs no more, and is in the table only until its parent asks. A process whose first thread alone has
// ended looks like a zombie, and runs.
func (p process) dead() bool { return p.state == 'X' || p.state == 'Z' && p.threads <= 1 }

// readProcess returns false where there is no such process.
func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseProcess(pid, b)
}

// parseProcess reads the fields behind the program's name, which may itself contain blanks and brackets.
func parseProcess(pid int, stat []byte) (process, bool) {
	const threadsField, startField = 17, 19 // of those behind the name; they are the 20th and 22nd of all
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= startField {
		return process{}, false
	}
	p := process{pid: pid, state: f[0][0]}
	var errs [5]error
	p.parent, errs[0] = strconv.Atoi(string(f[1]))
	p.group, errs[1] = strconv.Atoi(string(f[2]))
	p.session, errs[2] = strconv.Atoi(string(f[3]))
	p.threads, errs[3] = strconv.Atoi(string(f[threadsField]))
	p.start, errs[4] = strconv.ParseUint(string(f[startField]), 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

// processes returns the process table. Each line was true at some moment of the call.
func processes() ([]process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// descendants adds to roots all whose chain of parents leads to one of them.
func descendants(all []process, roots map[int]bool) map[int]bool {
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if roots[p.parent] && !roots[p.pid] {
				roots[p.pid] = true
				grown = true
			}
		}
	}
	return roots
}

// processAlive reports whether the process that began at start runs under pid.
func processAlive(pid int, start uint64) bool {
	p, ok := readProcess(pid)
	return ok && p.start == start && !p.dead()
}

// signalProcess signals exactly that process, or none: os.Process holds it by a pidfd, so that its number cannot pass to
// another one between the look and the signal. That it has ended is no error.
func signalProcess(pid int, start uint64, sig syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if !processAlive(pid, start) {
		return nil
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// killRemains kills what a dead supervisor left and waits until nothing of it runs, or for ctx's cause. One that is dying lets go
// of its files before it is gone from the table: it is waited for, since what it leaves is its business until then. So is, for a
// while, what may be a command whose pid it did not live to tell.
func killRemains(ctx context.Context, rec Record) error {
	patience := time.Now().Add(untoldWait)
	for {
		all, err := processes()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(p process) bool { return supervises(p, rec) }) {
			if pause(ctx, pollMin) != nil {
				return nil // it lives
			}
			continue
		}
		left := provedOurs(all, rec)
		untold := slices.ContainsFunc(all, func(p process) bool { return mayBeUntold(p, rec) })
		if len(left) == 0 && (!untold || time.Now().After(patience)) {
			return nil
		}
		for _, p := range left {
			err = errors.Join(err, signalProcess(p.pid, p.start, syscall.SIGKILL))
		}
		if waitErr := pause(ctx, pollMin); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// supervises reports whether a process is the supervisor of rec, and lives or is dying.
func supervises(p process, rec Record) bool {
	return p.pid == rec.PID && p.start == rec.StartTime && !p.dead()
}

// untoldWait bounds the wait for a process that may be a command which dies with its supervisor.
const untoldWait = 2 * time.Second

// mayBeUntold reports whether a process may be the command of rec, whose supervisor died before it could tell the pid. That cannot
// be proved, so it is not ours to kill; but the kernel kills the command when its supervisor dies, and it only has to come to
// its end. What is left after a while is another's, or what the command itself had started by then.
func mayBeUntold(p process, rec Record) bool {
	return rec.CommandPID == 0 && p.session == rec.PID && p.pid != rec.PID && p.start >= rec.StartTime && !p.dead()
}

// provedOurs returns the running processes that belonged to the command of rec, whose supervisor is dead.
//
// Linux gives a number to no new process while a group or session carries it. So the command's group is ours when its
// leader is still the one of rec; or, the leader being gone, when a process carries both its group and its session, and
// neither number belongs to a newer process. With one process proved, its session and all descendants are ours too.
// A daemon in a session of its own, whose parent is dead, cannot be proved to be anybody's, and is left alone.
func provedOurs(all []process, rec Record) []process {
	if rec.CommandPID == 0 {
		return nil
	}
	proved, reused := false, false
	for _, p := range all {
		switch {
		case supervises(p, rec):
			return nil // it is its business
		case p.pid == rec.PID && p.start != rec.StartTime,
			p.pid == rec.CommandPID && p.start != rec.CommandStartTime:
			reused = true
		case p.group == rec.CommandPID && p.session == rec.PID && p.start >= rec.CommandStartTime:
			proved = true // the leader, too, comes here
		}
	}
	if !proved || reused {
		return nil
	}
	roots := map[int]bool{}
	for _, p := range all {
		if p.session == rec.PID && p.pid != rec.PID {
			roots[p.pid] = true
		}
	}
	ours := descendants(all, roots)
	var left []process
	for _, p := range all {
		if ours[p.pid] && !p.dead() {
			left = append(left, p)
		}
	}
	return left
}

// launch starts program as the supervisor of dir, in a session of its own, with nothing of ours: no terminal, no
// descriptor, no environment. It returns the pid of our new child.
func launch(program, dir string) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	errs, err := os.OpenFile(dir+"/"+stderrName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer errs.Close()
	return syscall.ForkExec(program, []string{"perdure-supervise", dir}, &syscall.ProcAttr{
		Dir: "/",
		// One thread of Go code is plenty for it, and keeps it small.
		Env:   []string{dirVariable + "=" + dir, "GOMAXPROCS=1"},
		Files: []uintptr{null.Fd(), null.Fd(), errs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// reapChild reports whether the child pid has ended, and its exit status, -1 where a signal ended it or somebody else
// has reaped it.
func reapChild(pid int) (bool, int) {
	var ws syscall.WaitStatus
	got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	switch {
	case err == nil && got == pid:
		return true, ws.ExitStatus()
	case errors.Is(err, syscall.ECHILD):
		return true, -1
	}
	return false, 0
}

// killChild kills a child that was not reaped, whose number is therefore its own.
func killChild(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// bootAndNamespace returns the id of this boot and of the pid namespace.
func bootAndNamespace() (string, string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", Unsupported, err)
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", Unsupported, err)
	}
	if _, ok := readProcess(os.Getpid()); !ok {
		return "", "", fmt.Errorf("%w: /proc does not show this process", Unsupported)
	}
	return strings.TrimSpace(string(boot)), ns, nil
}

// now is the wall clock without the monotonic reading, as it stands in files.
func now() time.Time { return time.Now().UTC().Round(0) }
