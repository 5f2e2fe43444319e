package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// instruction is an instruction of a classic BPF program (struct sock_filter).
type instruction struct {
	code   uint16
	yes    uint8 // how many instructions to skip if the condition holds
	no     uint8
	number uint32
}

// The operations and the results of a filter.
const (
	opLoad   = 0x20 // of a word of struct seccomp_data
	opEqual  = 0x15
	opAtMin  = 0x35
	opAnyBit = 0x45
	opAnd    = 0x54
	opReturn = 0x06

	answerAllow = 0x7fff0000
	answerErrno = 0x00050000

	wordNumber = 0
	wordArch   = 4
	wordFirst  = 16 // low half of the first argument
	wordSecond = 24
)

// System calls with the same number on every architecture.
const (
	sysClone3          = 435
	sysIOURingSetup    = 425
	sysIOURingEnter    = 426
	sysIOURingRegister = 427
	sysOpenTree        = 428
	sysMoveMount       = 429
	sysFSOpen          = 430
	sysFSConfig        = 431
	sysFSMount         = 432
	sysFSPick          = 433
	sysPIDFDGetFD      = 438
	sysProcessMadvise  = 440
	sysQuotactlFD      = 443
	sysOpenTreeAttr    = 467
)

// newNamespaces are the flags of clone that create namespaces.
const newNamespaces = syscall.CLONE_NEWNS | 0x02000000 /* cgroup */ | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
	syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET

// forbidden lists the system calls that no command of an agent needs: they change the machine,
// inspect other processes, or expose a large part of the kernel. chmod and similar calls are not
// included, since nearly every program uses them.
func forbidden() []uint32 {
	return append([]uint32{
		syscall.SYS_MOUNT, syscall.SYS_UMOUNT2, syscall.SYS_PIVOT_ROOT, syscall.SYS_CHROOT, sysMountAttr,
		sysOpenTree, sysMoveMount, sysFSOpen, sysFSConfig, sysFSMount, sysFSPick, sysOpenTreeAttr,
		syscall.SYS_UNSHARE, syscall.SYS_PTRACE, sysPIDFDGetFD, sysProcessMadvise,
		syscall.SYS_KEYCTL, syscall.SYS_ADD_KEY, syscall.SYS_REQUEST_KEY,
		sysIOURingSetup, sysIOURingEnter, sysIOURingRegister,
		syscall.SYS_PERF_EVENT_OPEN, syscall.SYS_FANOTIFY_INIT, syscall.SYS_LOOKUP_DCOOKIE,
		syscall.SYS_INIT_MODULE, syscall.SYS_DELETE_MODULE, syscall.SYS_KEXEC_LOAD, syscall.SYS_REBOOT,
		syscall.SYS_SWAPON, syscall.SYS_SWAPOFF, syscall.SYS_ACCT, syscall.SYS_QUOTACTL, sysQuotactlFD, syscall.SYS_SYSLOG,
		syscall.SYS_SETTIMEOFDAY, syscall.SYS_CLOCK_SETTIME, syscall.SYS_SETHOSTNAME, syscall.SYS_SETDOMAINNAME,
		syscall.SYS_VHANGUP, syscall.SYS_MOVE_PAGES, syscall.SYS_MIGRATE_PAGES,
	}, forbiddenOnArch()...)
}

// forbiddenWithoutNamespaces lists the system calls that reach other processes of this machine if
// no namespace separates them, and that Landlock does not restrict: I/O priorities, and without a
// view System V memory, semaphores and queues, and POSIX queues.
func forbiddenWithoutNamespaces(o Order) []uint32 {
	switch {
	case o.Profile == Isolated:
		return nil
	case o.HasView():
		return []uint32{syscall.SYS_IOPRIO_SET}
	}
	return []uint32{
		syscall.SYS_SHMGET, syscall.SYS_SHMAT, syscall.SYS_SHMCTL, syscall.SYS_SEMGET, syscall.SYS_SEMCTL,
		syscall.SYS_SEMTIMEDOP, syscall.SYS_SEMOP, syscall.SYS_MSGGET, syscall.SYS_MSGCTL, syscall.SYS_MSGSND, syscall.SYS_MSGRCV,
		syscall.SYS_MQ_OPEN, syscall.SYS_MQ_UNLINK, syscall.SYS_IOPRIO_SET,
	}
}

// hasLocalSockets reports whether the command may create local (Unix) sockets. The paths of those
// outside must not exist for it, since Landlock does not prevent a connection to the path of one;
// abstract ones are closed by the network namespace of Isolated, or by Landlock 6.
func hasLocalSockets(o Order) bool {
	return o.Profile == Isolated || o.HasView() && landlockVersion() >= minLandlockForSignals
}

// onlySelf allows system calls that change a process by its pid only if the given arguments are
// zero, which means the caller.
func onlySelf() []instruction {
	var f []instruction
	for _, c := range []struct {
		number uint32
		words  []uint32
	}{
		{syscall.SYS_PRLIMIT64, []uint32{wordFirst}},
		{syscall.SYS_SETPRIORITY, []uint32{wordFirst, wordSecond}},
		{syscall.SYS_SCHED_SETAFFINITY, []uint32{wordFirst}},
		{syscall.SYS_SCHED_SETSCHEDULER, []uint32{wordFirst}},
		{syscall.SYS_SCHED_SETPARAM, []uint32{wordFirst}},
		{sysSchedSetattr, []uint32{wordFirst}},
	} {
		f = append(f, instruction{code: opEqual, number: c.number, no: uint8(3*len(c.words) + 1)})
		for _, word := range c.words {
			f = append(f, instruction{code: opLoad, number: word}, instruction{code: opEqual, number: 0, yes: 1}, refuse(syscall.EPERM))
		}
		f = append(f, instruction{code: opReturn, number: answerAllow})
	}
	return f
}

func refuse(errno syscall.Errno) instruction {
	return instruction{code: opReturn, number: answerErrno | uint32(errno)}
}

// families are the socket families that a command may create.
func families(o Order) []uint32 {
	all := []uint32{syscall.AF_INET, syscall.AF_INET6, syscall.AF_NETLINK}
	if hasLocalSockets(o) {
		all = append(all, syscall.AF_UNIX)
	}
	return all
}

// newFilter builds the filter of an order. Each test leaves the number of the system call loaded.
func newFilter(o Order) ([]instruction, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("the profile needs a seccomp filter, and there is none for %s", runtime.GOARCH)
	}
	const terminalInput, terminalLinux = 0x5412, 0x541c // TIOCSTI, TIOCLINUX
	f := []instruction{
		{code: opLoad, number: wordArch},
		{code: opEqual, number: auditArch, yes: 1},
		refuse(syscall.ENOSYS), // 32-bit programs
		{code: opLoad, number: wordNumber},
		{code: opAtMin, number: firstForeignCall, no: 1},
		refuse(syscall.ENOSYS),
		{code: opEqual, number: sysClone3, no: 1},
		// The flags are in memory, which a filter cannot read; callers fall back to clone.
		refuse(syscall.ENOSYS),
	}
	numbers := append(forbidden(), forbiddenWithoutNamespaces(o)...)
	for _, number := range numbers {
		f = append(f, instruction{code: opEqual, number: number, no: 1}, refuse(syscall.EPERM))
	}
	f = append(f,
		instruction{code: opEqual, number: syscall.SYS_CLONE, no: 4},
		instruction{code: opLoad, number: wordFirst},
		instruction{code: opAnyBit, number: newNamespaces, no: 1},
		refuse(syscall.EPERM),
		instruction{code: opReturn, number: answerAllow},

		instruction{code: opEqual, number: syscall.SYS_IOCTL, no: 5},
		instruction{code: opLoad, number: wordSecond},
		instruction{code: opEqual, number: terminalInput, yes: 1},
		instruction{code: opEqual, number: terminalLinux, no: 1},
		refuse(syscall.EPERM),
		instruction{code: opReturn, number: answerAllow},
	)
	if o.Profile != Isolated {
		f = append(f, onlySelf()...)
	}
	f = append(f, sockets(o)...)
	return append(f, instruction{code: opReturn, number: answerAllow}), nil
}

// sockets returns the tests of socket and socketpair.
func sockets(o Order) []instruction {
	allowed := families(o)
	n := uint8(len(allowed))
	f := []instruction{{code: opEqual, number: syscall.SYS_SOCKET, no: n + 3}, {code: opLoad, number: wordFirst}}
	for i, family := range allowed {
		f = append(f, instruction{code: opEqual, number: family, yes: n - uint8(i)})
	}
	f = append(f, refuse(syscall.EACCES), instruction{code: opReturn, number: answerAllow})
	if hasLocalSockets(o) {
		return f
	}
	// One end of a pair of datagram sockets could be connected to any path.
	const kindOfSocket = 0xf
	return append(f,
		instruction{code: opEqual, number: syscall.SYS_SOCKETPAIR, no: 4},
		instruction{code: opLoad, number: wordSecond},
		instruction{code: opAnd, number: kindOfSocket},
		instruction{code: opEqual, number: syscall.SOCK_DGRAM, no: 1},
		refuse(syscall.EACCES),
	)
}

// install installs a filter on this thread irrevocably. It allocates nothing. An empty filter is
// not installed.
func install(filter []instruction) error {
	if len(filter) == 0 {
		return nil
	}
	const modeFilter = 1
	program := struct {
		length uint16
		first  *instruction
	}{uint16(len(filter)), &filter[0]}
	_, _, errno := syscall.RawSyscall(sysSeccomp, modeFilter, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("%w: the profile needs seccomp filters: %w", Unenforceable, errno)
	}
	return nil
}

// checkSeccomp returns why this machine has no filters. A kernel that has them reads the null
// pointer and fails with EFAULT.
func checkSeccomp() error {
	const modeFilter = 1
	if auditArch == 0 {
		return fmt.Errorf("there is no filter for %s", runtime.GOARCH)
	}
	_, _, errno := syscall.RawSyscall(sysSeccomp, modeFilter, 0, 0)
	if errno != syscall.EFAULT {
		return errors.New("this kernel has no seccomp filters")
	}
	return nil
}
