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

// Try applies the whole sandbox of c to a child that then does nothing, in a temporary directory.
// program is a program that calls Entry; empty means this one. Unenforceable: this machine cannot
// enforce the profile; the error says why.
//
// With Unsafe a profile passes if a command can be started at all. The View is the best one that
// the machine permits, for the orders of c.
func Try(program string, c Config) (View, error) {
	if err := c.Check(); err != nil || !c.Profile.Confines() {
		return NoView, err
	}
	if c.Profile == Workspace {
		if view, err := bestView(program, c); err == nil {
			return view, nil
		}
	}
	_, err := try(program, c, NoView)
	return NoView, err
}

// bestView returns the best view that the machine permits to the profile Workspace, or why it
// permits none.
func bestView(program string, c Config) (View, error) {
	views := []View{ViewOfRoot, ViewOfUser}
	if os.Geteuid() != 0 {
		views = views[1:]
	}
	var why error
	for _, view := range views {
		_, err := try(program, c, view)
		if err == nil {
			return view, nil
		}
		why = err
	}
	return NoView, why
}

// try returns what was in force.
func try(program string, c Config, view View) ([]string, error) {
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
	runtime.LockOSThread() // the child dies with this thread
	defer runtime.UnlockOSThread()
	o := Order{
		Profile: c.Profile, View: view, Unsafe: c.Unsafe, Limits: c.Limits.WithDefaults(), Reads: c.Reads,
		Workspace: []byte(workspace), Scratch: []byte(filepath.Join(dir, "scratch")), Trial: true,
	}
	child, err := launch(program, o, [3]uintptr{null.Fd(), null.Fd(), null.Fd()})
	if child != nil && child.PID > 0 {
		_, _ = syscall.Wait4(child.PID, nil, 0, nil)
	}
	if err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			err = fmt.Errorf("%w: profile %s: %s", Unenforceable, c.Profile,
				strings.TrimPrefix(refusal.Text, Unenforceable.Error()+": "))
		}
		return nil, err
	}
	return child.Enforced, nil
}

// Facts says what this machine can enforce: first the parts of the sandbox, then the profiles, each
// of which is tried. program is as in Try.
func Facts(program string) []Fact {
	version := landlockVersion()
	files, signals := landlockFor(Isolated), landlockFor(Workspace)
	facts := []Fact{
		fact("Landlock for files", files, fmt.Sprintf("Landlock %d", version)),
		fact("Landlock for signals and abstract sockets", signals, fmt.Sprintf("Landlock %d", version)),
		fact("seccomp filters", checkSeccomp(), "the kernel supports them, and there is a filter for "+runtime.GOARCH),
	}
	isolated, isolatedErr := try(program, Config{Profile: Isolated}, NoView)
	_, workspaceErr := try(program, Config{Profile: Workspace}, NoView)
	_, viewErr := bestView(program, Config{Profile: Workspace, Unsafe: true}) // whatever else is missing
	var pids error
	if !slices.Contains(isolated, pidLimitWords) {
		pids = errors.New("pid_max is not per pid namespace (Linux 6.14), or the profile isolated does not work: " +
			"the supervisor counts processes and kills the command instead")
	}
	return append(facts,
		fact(ViewPart, viewErr, "tried"),
		fact("process limit by the pid namespace", pids, "pid_max is per namespace"),
		fact("process limit by RLIMIT_NPROC", rlimitAppliesToUser(), "this user is not root"),
		fact("limits by cgroup v2", cgroups("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "a cgroup with pids and memory is writable, but not used yet"),
		fact("profile workspace", workspaceErr, "tried"),
		fact("profile isolated", isolatedErr, "tried"),
	)
}

// fact returns a Fact that does not hold for the reason against, or one that holds, as shown by
// shows.
func fact(what string, against error, shows string) Fact {
	if against != nil {
		return Fact{Part: what, Why: against.Error()}
	}
	return Fact{Part: what, Enforced: true, Why: shows}
}

func rlimitAppliesToUser() error {
	if os.Geteuid() == 0 {
		return errors.New("the limit does not apply to root: the supervisor counts processes and kills the command instead")
	}
	return nil
}

// cgroups returns why no cgroup v2 under the roots can limit processes and memory.
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
			return fmt.Errorf("cgroup v2 at %s is not writable: %w", root, err)
		}
		return nil
	}
	return errors.New("no cgroup v2")
}
