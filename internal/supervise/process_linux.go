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
	"unicode/utf8"
)

// selfProgram is this executable, even if its file was replaced or removed, so that a supervisor
// has the version of its runtime.
const selfProgram = "/proc/self/exe"

// process is an entry of the process table (proc(5), /proc/PID/stat).
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
	start                       uint64 // clock ticks since boot
	ticks                       ticks  // of processor time
	childTicks                  ticks  // likewise, of its children that have ended
}

// ticks is a time in the unit of /proc.
type ticks uint64

func (t ticks) duration() time.Duration { return time.Duration(t) * clockTick }

// dead reports whether p has ended and only waits for its parent to reap it. A process of which
// only the first thread has ended looks like a zombie, but is running.
func (p process) dead() bool { return p.state == 'X' || p.state == 'Z' && p.threads <= 1 }

// readProcess returns false if there is no such process.
func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseProcess(pid, b)
}

// parseProcess parses the fields after the program's name, which may itself contain spaces and
// parentheses.
func parseProcess(pid int, stat []byte) (process, bool) {
	// Of those after the name; they are fields 14 to 17, 20 and 22 of proc(5).
	const timeField, threadsField, startField = 11, 17, 19
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= startField {
		return process{}, false
	}
	p := process{pid: pid, state: f[0][0]}
	var errs [9]error
	p.parent, errs[0] = strconv.Atoi(string(f[1]))
	p.group, errs[1] = strconv.Atoi(string(f[2]))
	p.session, errs[2] = strconv.Atoi(string(f[3]))
	p.threads, errs[3] = strconv.Atoi(string(f[threadsField]))
	p.start, errs[4] = strconv.ParseUint(string(f[startField]), 10, 64)
	for i, sum := range []*ticks{&p.ticks, &p.ticks, &p.childTicks, &p.childTicks} { // user and system
		var n uint64
		n, errs[5+i] = strconv.ParseUint(string(f[timeField+i]), 10, 64)
		*sum += ticks(n)
	}
	return p, errors.Join(errs[:]...) == nil
}

// processes returns the process table. Each entry was valid at some moment during the call.
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

// commandLine returns the command line of a process for people, at most maxNameBytes of it; its
// program's name if it has none.
func commandLine(pid int) string {
	const maxNameBytes = 80
	dir := "/proc/" + strconv.Itoa(pid)
	line, err := os.ReadFile(dir + "/cmdline")
	if line = bytes.TrimRight(line, "\x00"); err != nil || len(line) == 0 {
		line, _ = os.ReadFile(dir + "/comm") // empty if it has just ended
	}
	words := strings.Fields(strings.ToValidUTF8(strings.ReplaceAll(string(line), "\x00", " "), "\uFFFD"))
	name := strings.Join(words, " ")
	if len(name) <= maxNameBytes {
		return name
	}
	end := maxNameBytes
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + "…"
}

// innerPID returns the pid of a process in its own pid namespace.
func innerPID(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return pid
	}
	_, line, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ = strings.Cut(line, "\n")
	pids := strings.Fields(line)
	if len(pids) == 0 {
		return pid
	}
	inner, err := strconv.Atoi(pids[len(pids)-1])
	if err != nil {
		return pid
	}
	return inner
}

// descendants adds to roots all their descendants.
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

// processAlive reports whether the process with the pid and the start time is running.
func processAlive(pid int, start uint64) bool {
	p, ok := readProcess(pid)
	return ok && p.start == start && !p.dead()
}

// signalProcess signals exactly that process, or none: os.Process refers to it by a pidfd, so that
// the pid cannot be reused between the check and the signal. A process that has ended is not an
// error.
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

// killRemains kills what a dead supervisor left behind, and waits until none of it is running, or
// returns ctx's cause. A supervisor that is dying closes its files before it leaves the process
// table; killRemains waits for it, since until then its command is not an orphan. For a while it
// also waits for processes that may be a command whose pid the supervisor could not record.
func killRemains(ctx context.Context, rec Record) error {
	giveUpAt := time.Now().Add(unrecordedWait)
	for {
		all, err := processes()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(p process) bool { return isSupervisor(p, rec) }) {
			if pause(ctx, pollMin) != nil {
				return nil // the supervisor is alive
			}
			continue
		}
		left := provedProcesses(all, rec)
		unrecorded := slices.ContainsFunc(all, func(p process) bool { return mayBeUnrecorded(p, rec) })
		if len(left) == 0 && (!unrecorded || time.Now().After(giveUpAt)) {
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

// isSupervisor reports whether a process is the supervisor of rec, running or dying.
func isSupervisor(p process, rec Record) bool {
	return p.pid == rec.PID && p.start == rec.StartTime && !p.dead()
}

// unrecordedWait limits the wait for a process that may be a command whose pid was never recorded.
const unrecordedWait = 2 * time.Second

// mayBeUnrecorded reports whether a process may be the command of rec, whose supervisor died before
// it could record the pid. That cannot be proved, so the process must not be killed. But the kernel
// kills the command when its supervisor dies, so the command will soon have ended. A process that
// remains after a while belongs to another program, or the command had started it before.
func mayBeUnrecorded(p process, rec Record) bool {
	return rec.CommandPID == 0 && p.session == rec.PID && p.pid != rec.PID && p.start >= rec.StartTime && !p.dead()
}

// provedProcesses returns the running processes that belonged to the command of rec, whose
// supervisor is dead.
//
// Linux does not reuse a number as a pid while a process group or session has it. So the command's
// group is ours if its leader is still the process of rec; or, after the leader has ended, if a
// process has both its group and its session, and neither number belongs to a newer process. Once
// one process is proved, its session and all descendants are ours, too. A daemon in its own session
// whose parent is dead cannot be attributed to any command, and is left alone.
func provedProcesses(all []process, rec Record) []process {
	if rec.CommandPID == 0 {
		return nil
	}
	proved, reused := false, false
	for _, p := range all {
		switch {
		case isSupervisor(p, rec):
			return nil // the supervisor takes care of its command
		case p.pid == rec.PID && p.start != rec.StartTime,
			p.pid == rec.CommandPID && p.start != rec.CommandStartTime:
			reused = true
		case p.group == rec.CommandPID && p.session == rec.PID && p.start >= rec.CommandStartTime:
			proved = true // this includes the leader
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

// launch starts program as the supervisor of dir, in its own session and without our terminal,
// descriptors and environment. It inherits secrets, the pipe with the secrets of the command,
// unless that is nil. It returns the pid of the new child.
func launch(program, dir string, secrets *os.File) (int, error) {
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
	// One thread of Go code is enough, and keeps the process small.
	env, files := []string{dirVariable + "=" + dir, "GOMAXPROCS=1"}, []uintptr{null.Fd(), null.Fd(), errs.Fd()}
	if secrets != nil {
		env, files = append(env, secretsVariable+"="+strconv.Itoa(secretsFD)), append(files, secrets.Fd())
	}
	return syscall.ForkExec(program, []string{"perdure-supervise", dir}, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// reapChild reports whether the child pid has ended, its exit status, and the signal that ended it;
// 0: none did. The status is -1 if a signal ended it, or it was reaped before.
func reapChild(pid int) (bool, int, syscall.Signal) {
	var ws syscall.WaitStatus
	got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	switch {
	case err == nil && got == pid && ws.Signaled():
		return true, ws.ExitStatus(), ws.Signal()
	case err == nil && got == pid:
		return true, ws.ExitStatus(), 0
	case errors.Is(err, syscall.ECHILD):
		return true, -1, 0
	}
	return false, 0, 0
}

// killChild kills a child that was not reaped, so that its pid cannot have been reused.
func killChild(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// lockDir waits for the lock of a directory, which processes hold one at a time.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		switch err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX); {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), d.Close())
		}
		return func() {
			// explicitly, because a child that was just forked has the descriptor, too
			_ = syscall.Flock(int(d.Fd()), syscall.LOCK_UN) // cannot fail for a lock that is held
			_ = d.Close()
		}, nil
	}
}

// bootAndNamespace returns the ids of this boot and of the pid namespace.
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

// now returns the wall-clock time without the monotonic reading, as files store it.
func now() time.Time { return time.Now().UTC().Round(0) }
