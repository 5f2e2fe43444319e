package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// The options of prctl(2).
const (
	prSetDumpable     = 4
	prSetParentDeath  = 1
	prSetNoNewPrivs   = 38
	prDropBounding    = 24
	prAmbient         = 47
	prAmbientClearAll = 4
)

// limitProcesses is RLIMIT_NPROC. It does not apply to a process that is root outside.
const limitProcesses = 6

// confine applies the whole sandbox except for the seccomp filter, which must come last. It returns
// what is in force, in words, and the filter.
//
// If this kernel lacks a part, confine fails with Unenforceable; with Unsafe it omits the part from
// the words instead.
func confine(o Order) ([]string, []instruction, error) {
	var enforced []string
	missed := func(err error) error {
		if o.Unsafe {
			return nil
		}
		return fmt.Errorf("%w: %w", Unenforceable, err)
	}
	if err := limitAll(o); err != nil {
		return nil, nil, fmt.Errorf("set limits: %w", err)
	}
	enforced = append(enforced, "resource limits")
	if words, err := applyLandlock(o); err != nil {
		if err = missed(err); err != nil {
			return nil, nil, err
		}
	} else {
		enforced = append(enforced, words)
	}
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
		return nil, nil, fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return nil, nil, fmt.Errorf("drop capabilities: %w", err)
	}
	enforced = append(enforced, "no_new_privs", "capabilities dropped")
	filter, err := newFilter(o)
	if err != nil {
		if err = missed(err); err != nil {
			return nil, nil, err
		}
		return enforced, nil, nil
	}
	return append(enforced, "seccomp"), filter, nil
}

// preferOthers lowers the priority of the command, and makes it the first to be killed when memory
// runs out. Both are best effort.
func preferOthers() {
	const nice, firstToDie = 5, "500"
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(firstToDie), 0)
}

// resourceLimit is a limit of setrlimit(2). Zero means no limit, except for core dumps.
type resourceLimit struct {
	resource int
	max      uint64
}

// limitAll sets the limits of each process. Memory is not among them: what a process has in use is
// not what it has reserved, and the kernel can limit only that. The supervisor watches its use.
func limitAll(o Order) error {
	l := o.Limits
	limits := []resourceLimit{
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_NOFILE, uint64(l.OpenFiles)},
		{syscall.RLIMIT_FSIZE, uint64(l.FileBytes)},
		{syscall.RLIMIT_CPU, uint64((l.CPU + time.Second - 1) / time.Second)},
	}
	// A user namespace counts its own processes; elsewhere all processes of the user count.
	if o.Profile == Isolated {
		limits = append(limits, resourceLimit{limitProcesses, uint64(l.Processes)})
	}
	for _, limit := range limits {
		if limit.max == 0 && limit.resource != syscall.RLIMIT_CORE {
			continue
		}
		if err := lower(limit.resource, limit.max); err != nil {
			return err
		}
	}
	return nil
}

// lower sets a limit irrevocably, unless it is lower already.
func lower(resource int, limit uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	limit = min(limit, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
}

// overrideAccess is CAP_DAC_OVERRIDE, which root needs for files of other users in the workspace.
// Landlock still restricts it.
const overrideAccess = 1

// dropCapabilities removes all capabilities except overrideAccess from this thread and what it
// executes.
func dropCapabilities() error {
	const lastKnown = 63
	for c := uintptr(0); c <= lastKnown; c++ {
		if c == overrideAccess {
			continue
		}
		// EINVAL: the kernel does not have this capability. EPERM: we have none to drop, and
		// no_new_privs keeps it that way.
		if err := prctl(prDropBounding, c); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPERM) {
			return err
		}
	}
	_ = prctl(prAmbient, prAmbientClearAll) // fails only before Linux 4.3, which has none
	header := struct {
		version uint32
		pid     int32
	}{version: 0x20080522}
	var sets [2]struct{ effective, permitted, inheritable uint32 }
	get := func(number uintptr) error {
		_, _, errno := syscall.RawSyscall(number, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	if err := get(syscall.SYS_CAPGET); err != nil {
		return err
	}
	kept := sets[0].permitted & (1 << overrideAccess)
	sets[0].effective, sets[0].permitted, sets[0].inheritable = kept, kept, 0
	sets[1].effective, sets[1].permitted, sets[1].inheritable = 0, 0, 0
	return get(syscall.SYS_CAPSET)
}

// dieWithParent makes this thread, which becomes the command, die with its parent, and fails if the
// parent is dead already. Zero means a parent whose death ends this process anyway.
func dieWithParent(parent int) error {
	if parent == 0 {
		return nil
	}
	if err := prctl(prSetParentDeath, uintptr(syscall.SIGKILL)); err != nil {
		return fmt.Errorf("set the parent death signal: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the supervisor has died")
	}
	return nil
}

func prctl(option int, argument uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), argument, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
