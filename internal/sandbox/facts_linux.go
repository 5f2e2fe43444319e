package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Try puts the whole sandbox of c on a child that then does nothing, in a folder of its own. Program is a program that
// calls Entry; empty is this one. Unenforceable: this machine cannot keep the profile, and the error says why.
//
// With Unsafe a profile passes where the command can be started at all.
func Try(program string, c Config) error {
	_, err := try(program, c)
	return err
}

// try returns what was in force.
func try(program string, c Config) ([]string, error) {
	if err := c.Check(); err != nil || !c.Profile.Confines() {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "perdure-sandbox")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	runtime.LockOSThread() // the child dies with the thread
	defer runtime.UnlockOSThread()
	o := Order{
		Profile: c.Profile, Unsafe: c.Unsafe, Limits: c.Limits.WithDefaults(), Reads: c.Reads,
		Workspace: []byte(workspace), Scratch: []byte(filepath.Join(dir, "scratch")), Trial: true,
	}
	child, err := launch(program, o, [3]uintptr{null.Fd(), null.Fd(), null.Fd()})
	if child != nil && child.PID > 0 {
		_, _ = syscall.Wait4(child.PID, nil, 0, nil)
	}
	if err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			err = fmt.Errorf("%w: the profile %s was tried: %s", Unenforceable, c.Profile,
				strings.TrimPrefix(refusal.Text, Unenforceable.Error()+": "))
		}
		return nil, err
	}
	return child.Enforced, nil
}

// Facts says what this machine can keep, part by part and then profile by profile, each of which is tried. Program is as
// in Try.
func Facts(program string) []Fact {
	version := landlockVersion()
	files, signals := landlockFor(Isolated), landlockFor(Workspace)
	facts := []Fact{
		fact("Landlock for files", files, fmt.Sprintf("Landlock %d", version)),
		fact("Landlock for signals and abstract sockets", signals, fmt.Sprintf("Landlock %d", version)),
		fact("seccomp filters", seccompThere(), "the kernel has them, and there is a filter for "+runtime.GOARCH),
	}
	isolated, isolatedErr := try(program, Config{Profile: Isolated})
	_, workspaceErr := try(program, Config{Profile: Workspace})
	var pids error
	if !slices.Contains(isolated, pidLimitWords) {
		pids = errors.New("pid_max is not a pid namespace's own (Linux 6.14), or the profile isolated does not hold: " +
			"a watch of the supervisor counts and kills instead")
	}
	return append(facts,
		fact("process limit by the pid namespace", pids, "pid_max is the namespace's own"),
		fact("process limit by RLIMIT_NPROC", boundUser(), "this user is not root"),
		fact("limits by cgroup v2", cgroups("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "a cgroup with pids and memory can be written; it is not used yet"),
		fact("profile workspace", workspaceErr, "it was tried"),
		fact("profile isolated", isolatedErr, "it was tried"),
	)
}

// fact makes one of a reason against it, or nil and what shows it.
func fact(what string, against error, shows string) Fact {
	if against != nil {
		return Fact{What: what, Why: against.Error()}
	}
	return Fact{What: what, Holds: true, Why: shows}
}

func boundUser() error {
	if os.Geteuid() == 0 {
		return errors.New("it does not bind root: a watch of the supervisor counts and kills instead")
	}
	return nil
}

// cgroups says why no cgroup of version 2 under one of the roots can bound processes and memory.
func cgroups(roots ...string) error {
	for _, root := range roots {
		b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		if err != nil {
			continue
		}
		have := strings.Fields(string(b))
		for _, need := range []string{"pids", "memory"} {
			if !slices.Contains(have, need) {
				return fmt.Errorf("cgroup v2 at %s has no controller %s (it has: %s)", root, need, strings.Join(have, " "))
			}
		}
		const writable = 2
		if err := syscall.Access(root, writable); err != nil {
			return fmt.Errorf("cgroup v2 at %s cannot be written: %w", root, err)
		}
		return nil
	}
	return errors.New("there is no cgroup v2")
}
