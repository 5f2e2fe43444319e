package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// prctl(2).
const (
	prSetDumpable     = 4
	prSetParentDeath  = 1
	prSetNoNewPrivs   = 38
	prDropBounding    = 24
	prAmbient         = 47
	prAmbientClearAll = 4
)

// limitProcesses is RLIMIT_NPROC. It binds nobody who is root outside.
const limitProcesses = 6

// confine puts everything on but the memory limit and the seccomp filter, which come last. It returns what is in force,
// in words, and the filter.
//
// Each part that this kernel does not have ends it with Unenforceable, or with Unsafe is left out of the words.
func confine(o Order) ([]string, []instruction, error) {
	var enforced []string
	missed := func(err error) error {
		if o.Unsafe {
			return nil
		}
		return fmt.Errorf("%w: %w", Unenforceable, err)
	}
	preferOthers()
	if err := limitAll(o); err != nil {
		return nil, nil, fmt.Errorf("set limits: %w", err)
	}
	enforced = append(enforced, "resource limits")
	if words, err := landlocked(o); err != nil {
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
	filter, err := newFilter(o.Profile)
	if err != nil {
		if err = missed(err); err != nil {
			return nil, nil, err
		}
		return enforced, nil, nil
	}
	return append(enforced, "seccomp"), filter, nil
}

// preferOthers makes the kernel give the processor to others first, and end the command first when memory is short.
// Neither is a promise.
func preferOthers() {
	const nice, firstToDie = 5, "500"
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(firstToDie), 0)
}

// resourceLimit is one of setrlimit(2); zero is none, but for core dumps.
type resourceLimit struct {
	resource int
	most     uint64
}

// limitAll sets the limits that do not hurt ourselves.
func limitAll(o Order) error {
	l := o.Limits
	limits := []resourceLimit{
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_NOFILE, uint64(l.OpenFiles)},
		{syscall.RLIMIT_FSIZE, uint64(l.FileBytes)},
		{syscall.RLIMIT_CPU, uint64((l.CPU + time.Second - 1) / time.Second)},
	}
	if o.Profile == Isolated { // in a user namespace they are counted apart; elsewhere the user's other processes count, too
		limits = append(limits, resourceLimit{limitProcesses, uint64(l.Processes)})
	}
	for _, limit := range limits {
		if limit.most == 0 && limit.resource != syscall.RLIMIT_CORE {
			continue
		}
		if err := lower(limit.resource, limit.most); err != nil {
			return err
		}
	}
	return nil
}

// limitMemory bounds the address space. It allocates nothing.
func limitMemory(l Limits) error {
	if l.MemoryBytes == 0 {
		return nil
	}
	return lower(syscall.RLIMIT_AS, uint64(l.MemoryBytes))
}

// lower sets a limit for good, unless a lower one is there already.
func lower(resource int, most uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	most = min(most, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
}

// overrideAccess is CAP_DAC_OVERRIDE: root may have files of others in the workspace. Landlock bounds it.
const overrideAccess = 1

// dropCapabilities leaves this thread, and what it executes, without any capability but overrideAccess.
func dropCapabilities() error {
	const lastKnown = 63
	for c := uintptr(0); c <= lastKnown; c++ {
		if c == overrideAccess {
			continue
		}
		// EINVAL: the kernel has no such one. EPERM: we have none to give away, and no_new_privs keeps it so.
		if err := prctl(prDropBounding, c); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPERM) {
			return err
		}
	}
	_ = prctl(prAmbient, prAmbientClearAll) // before Linux 4.3 there are none
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

// stayWith makes this thread, which becomes the command, die with its parent, and ends here where that is dead already.
// Zero is a parent that takes us along anyway.
func stayWith(parent int) error {
	if parent == 0 {
		return nil
	}
	if err := prctl(prSetParentDeath, uintptr(syscall.SIGKILL)); err != nil {
		return fmt.Errorf("die with the supervisor: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the supervisor is dead")
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
