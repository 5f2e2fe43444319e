package supervise_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// escapeMode makes the test binary an attempt to escape: its name, and what it is aimed at.
const escapeMode = "fixture-escape"

// What an attempt prints: that it began, without which it proves nothing, and that it found the way
// open.
const (
	attempted = "ATTEMPTED"
	escaped   = "ESCAPED"
)

// escapeFixture makes an attempt that cannot be expressed in a shell, and prints the kernel's
// error.
func escapeFixture() {
	if len(os.Args) != 4 || os.Args[1] != escapeMode {
		return
	}
	attempt, ok := attempts()[os.Args[2]]
	if !ok {
		leave(fmt.Errorf("there is no attempt %q", os.Args[2]))
	}
	fmt.Println(attempted)
	if err := attempt(os.Args[3]); err != nil {
		leave(fmt.Errorf("%s: %w", os.Args[2], err))
	}
	fmt.Println(escaped)
	leave(nil)
}

// attempts returns all of them by name. An attempt that gets through returns nil.
func attempts() map[string]func(at string) error {
	return map[string]func(string) error{
		"truncate":     func(at string) error { return syscall.Truncate(at, 0) },
		"xattr":        func(at string) error { return syscall.Setxattr(at, "user.perdure", []byte("x"), 0) },
		"byhandle":     byHandle,
		"open":         func(at string) error { return opens(at, os.O_RDONLY) },
		"openwrite":    func(at string) error { return opens(at, os.O_WRONLY) },
		"parentmemory": func(string) error { return opens(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDWR) },
		"ptrace":       func(at string) error { return withPID(at, syscall.PtraceAttach) },
		"peek":         peek,
		"setns":        setNamespace,
		"stealfd":      stealDescriptor,
		"prlimit":      otherLimit,
		"renice": func(at string) error {
			return withPID(at, func(pid int) error { return syscall.Setpriority(0, pid, 19) })
		},
		"unix":         func(at string) error { return says("unix", at) },
		"pair":         pairToPath,
		"tcp":          func(at string) error { return says("tcp", at) },
		"udp":          func(at string) error { return says("udp", at) },
		"rawsocket":    func(string) error { return socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP) },
		"packetsocket": func(string) error { return socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0) },
		"vsock":        func(string) error { return socket(40, syscall.SOCK_STREAM, 0) },
		"mount":        func(at string) error { return syscall.Mount("perdure-test", at, "tmpfs", 0, "size=64k") },
		"chroot":       syscall.Chroot,
		"unsharenet":   func(string) error { return syscall.Unshare(syscall.CLONE_NEWNET) },
		"clone":        cloneUser,
		"iouring":      ioURing,
		"keyctl":       func(string) error { return call(syscall.SYS_KEYCTL, 0, userKeyring, 0) },
		"bpf":          makeMap,
		"hostname":     sameHostname,
		"clock":        func(string) error { _, err := syscall.Adjtimex(&syscall.Timex{}); return err },
		"kernellog":    func(string) error { _, err := syscall.Klogctl(10, nil); return err },
		"sysctl":       sameSetting,
		"sharedmemory": sharedMemory,
	}
}

func opens(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func call(number uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	_, _, errno := syscall.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5])
	if errno != 0 {
		return errno
	}
	return nil
}

func withPID(at string, do func(int) error) error {
	pid, err := strconv.Atoi(at)
	if err != nil {
		return err
	}
	return do(pid)
}

func socket(family, kind, protocol int) error {
	fd, err := syscall.Socket(family, kind, protocol)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// says sends the word to a listener. Whether it came is for the listener to say.
func says(network, at string) error {
	c, err := net.DialTimeout(network, at, 5*time.Second)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte(escaped))
	return errors.Join(err, c.Close())
}

// pairToPath makes a pair of sockets, which needs no permission, and turns one of them to a path.
func pairToPath(at string) error {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := syscall.Connect(fds[0], &syscall.SockaddrUnix{Name: at}); err != nil {
		return err
	}
	_, err = syscall.Write(fds[0], []byte(escaped))
	return err
}

// Numbers of calls that are the same on every architecture, and of arguments.
const (
	sysIOURingSetup = 425
	sysPIDFDOpen    = 434
	sysPIDFDGetFD   = 438
	atFDCWD         = ^uintptr(99)
	handleHeader    = 8
)

// userKeyring is KEY_SPEC_USER_KEYRING, -4.
const userKeyring = ^uintptr(3)

// handleOf names a file without its path. It is the outside that makes it.
func handleOf(path string) (string, error) {
	var handle [136]byte
	binary.LittleEndian.PutUint32(handle[:], 128)
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return "", err
	}
	var mount int32
	err = call(sysNameToHandle, atFDCWD, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&handle[0])), uintptr(unsafe.Pointer(&mount)))
	return hex.EncodeToString(handle[:handleHeader+binary.LittleEndian.Uint32(handle[:])]), err
}

// byHandle opens a file that the working directory's disk has, by its handle, and shows it.
func byHandle(at string) error {
	handle, err := hex.DecodeString(at)
	if err != nil {
		return err
	}
	dir, err := os.Open(".")
	if err != nil {
		return err
	}
	fd, _, errno := syscall.Syscall(sysOpenByHandle, dir.Fd(), uintptr(unsafe.Pointer(&handle[0])), uintptr(os.O_RDONLY))
	if errno != 0 {
		return errno
	}
	var b [64]byte
	n, err := syscall.Read(int(fd), b[:])
	fmt.Println(string(b[:max(n, 0)]))
	return err
}

// peek reads memory of another process. That there is nothing at the address is past the
// permission.
func peek(at string) error {
	return withPID(at, func(pid int) error {
		var b [8]byte
		local := struct {
			base *byte
			size uintptr
		}{&b[0], 8}
		remote := struct{ base, size uintptr }{1 << 20, 8}
		err := call(sysProcessRead, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1)
		if errors.Is(err, syscall.EFAULT) {
			return nil
		}
		return err
	})
}

func setNamespace(at string) error {
	f, err := os.Open("/proc/" + at + "/ns/net")
	if err != nil {
		return err
	}
	return call(sysSetns, f.Fd())
}

// stealDescriptor takes descriptor 0 of another process.
func stealDescriptor(at string) error {
	return withPID(at, func(pid int) error {
		fd, _, errno := syscall.Syscall(sysPIDFDOpen, uintptr(pid), 0, 0)
		if errno != 0 {
			return errno
		}
		return call(sysPIDFDGetFD, fd, 0)
	})
}

// otherLimit takes a limit away from another process: it can end it so.
func otherLimit(at string) error {
	return withPID(at, func(pid int) error {
		limit := syscall.Rlimit{Cur: 99, Max: 99}
		return call(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(syscall.RLIMIT_CORE), uintptr(unsafe.Pointer(&limit)))
	})
}

func cloneUser(string) error {
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return c.Run()
}

func ioURing(string) error {
	var parameters [120]byte
	return call(sysIOURingSetup, 1, uintptr(unsafe.Pointer(&parameters[0])))
}

func makeMap(string) error {
	array := [16]uint32{2, 4, 4, 1}
	return call(sysBPF, 0, uintptr(unsafe.Pointer(&array[0])), unsafe.Sizeof(array))
}

// sameHostname sets the present name: only the right to do it matters.
func sameHostname(string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return syscall.Sethostname([]byte(name))
}

// sameSetting writes a setting of the kernel back.
func sameSetting(string) error {
	const setting = "/proc/sys/vm/swappiness"
	b, err := os.ReadFile(setting)
	if err != nil {
		return err
	}
	return os.WriteFile(setting, b, 0)
}

// sharedMemory reads what another process keeps in System V memory.
func sharedMemory(at string) error {
	return withPID(at, func(id int) error {
		address, _, errno := syscall.Syscall(syscall.SYS_SHMAT, uintptr(id), 0, syscall.O_RDONLY)
		if errno != 0 {
			return errno
		}
		return call(syscall.SYS_SHMDT, address)
	})
}
