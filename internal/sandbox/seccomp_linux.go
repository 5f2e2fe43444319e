package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// instruction is one of a classic BPF program (struct sock_filter).
type instruction struct {
	code   uint16
	yes    uint8 // how many to skip where a jump is taken
	no     uint8
	number uint32
}

// Operations, and what a filter answers.
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

// Calls that are numbered alike on every architecture.
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

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = syscall.CLONE_NEWNS | 0x02000000 /* cgroup */ | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
	syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET

// forbidden are calls that no command of an agent needs: they change the machine, look into other processes, or are large
// ways into the kernel. chmod and the like are not among them, as nearly every program uses them.
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
	}, forbiddenHere()...)
}

// forbiddenTogether are calls that reach other processes of this machine where no namespace keeps the command apart, and
// which Landlock does not know: System V memory, semaphores and queues, POSIX queues, and priorities of the disk.
func forbiddenTogether() []uint32 {
	return []uint32{
		syscall.SYS_SHMGET, syscall.SYS_SHMAT, syscall.SYS_SHMCTL, syscall.SYS_SEMGET, syscall.SYS_SEMCTL,
		syscall.SYS_SEMTIMEDOP, syscall.SYS_SEMOP, syscall.SYS_MSGGET, syscall.SYS_MSGCTL, syscall.SYS_MSGSND, syscall.SYS_MSGRCV,
		syscall.SYS_MQ_OPEN, syscall.SYS_MQ_UNLINK, syscall.SYS_IOPRIO_SET,
	}
}

// onlySelf are calls that change a process by its number, and the arguments that have to be zero, which is the caller.
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

// families are the kinds of sockets that a command may make. Those of this machine's own processes are left out where
// nothing else keeps the command from them: a path of one can be connected to past Landlock.
func families(p Profile) []uint32 {
	all := []uint32{syscall.AF_INET, syscall.AF_INET6, syscall.AF_NETLINK}
	if p == Isolated {
		all = append(all, syscall.AF_UNIX)
	}
	return all
}

// newFilter builds the filter of a profile. Each test leaves the number of the call loaded.
func newFilter(p Profile) ([]instruction, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("it needs a seccomp filter, and there is none for %s", runtime.GOARCH)
	}
	const terminalInput, terminalLinux = 0x5412, 0x541c // TIOCSTI, TIOCLINUX
	f := []instruction{
		{code: opLoad, number: wordArch},
		{code: opEqual, number: auditArch, yes: 1},
		refuse(syscall.ENOSYS), // 32-bit programs
		{code: opLoad, number: wordNumber},
		{code: opAtMin, number: foreignNumbers, no: 1},
		refuse(syscall.ENOSYS),
		{code: opEqual, number: sysClone3, no: 1},
		refuse(syscall.ENOSYS), // its flags are in memory, out of our sight; everybody falls back to clone
	}
	numbers := forbidden()
	if p != Isolated {
		numbers = append(numbers, forbiddenTogether()...)
	}
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
	if p != Isolated {
		f = append(f, onlySelf()...)
	}
	f = append(f, sockets(p)...)
	return append(f, instruction{code: opReturn, number: answerAllow}), nil
}

// sockets are the tests of socket and socketpair.
func sockets(p Profile) []instruction {
	allowed := families(p)
	n := uint8(len(allowed))
	f := []instruction{{code: opEqual, number: syscall.SYS_SOCKET, no: n + 3}, {code: opLoad, number: wordFirst}}
	for i, family := range allowed {
		f = append(f, instruction{code: opEqual, number: family, yes: n - uint8(i)})
	}
	f = append(f, refuse(syscall.EACCES), instruction{code: opReturn, number: answerAllow})
	if p == Isolated {
		return f
	}
	// One end of a pair of datagram sockets can be connected to any path.
	const kindOfSocket = 0xf
	return append(f,
		instruction{code: opEqual, number: syscall.SYS_SOCKETPAIR, no: 4},
		instruction{code: opLoad, number: wordSecond},
		instruction{code: opAnd, number: kindOfSocket},
		instruction{code: opEqual, number: syscall.SOCK_DGRAM, no: 1},
		refuse(syscall.EACCES),
	)
}

// install puts a filter on this thread, for good. It allocates nothing. An empty filter is none.
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
		return fmt.Errorf("%w: it needs seccomp filters: %w", Unenforceable, errno)
	}
	return nil
}

// seccompThere reports whether the kernel has filters: it looks at a null pointer for one only if it does.
func seccompThere() error {
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
