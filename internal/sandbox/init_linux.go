package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// runInit is the first process of the command's pid namespace: when it ends, the kernel kills all that is in there. It
// builds the command's view of the machine, starts the command, tells how it ended, and leaves when nobody is left.
// It returns only with the reason why there is no command.
func runInit(o Order, r *reporter) error {
	// A stop comes as SIGTERM to the whole group. It is for the command; we only outlive it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE)
	if err := makeScratch(string(o.Scratch)); err != nil {
		return fmt.Errorf("make scratch folder: %w", err)
	}
	if err := buildView(o); err != nil {
		return fmt.Errorf("%w: build the command's view of the file system: %w", Unenforceable, err)
	}
	// No other process in here may look into us.
	if err := prctl(prSetDumpable, 0); err != nil {
		return fmt.Errorf("hide the init: %w", err)
	}
	enforced := []string{"user, pid, mount, network, IPC and host name namespaces"}
	if err := raiseLoopback(); err == nil {
		enforced = append(enforced, "loopback of its own")
	}
	if o.Limits.Processes > 0 && limitPIDs(o.Limits.Processes) == nil {
		enforced = append(enforced, pidLimitWords)
	}
	o.Parent = 0 // ours is in another namespace; with us the stage dies anyway
	s, err := spawn(start{stage: "stage", std: [3]uintptr{0, 1, 2}, sys: &syscall.SysProcAttr{}}, o)
	if err != nil {
		return err
	}
	child, err := s.await()
	if err != nil {
		return err
	}
	s.report.Close()
	r.say(message{Enforced: append(enforced, child.Enforced...)})
	if o.Trial {
		syscall.Exit(0)
	}
	// The streams are the command's alone: their end is to be seen when it is over.
	for fd := range 3 {
		syscall.Close(fd)
	}
	r.say(message{Started: true})
	reapAll(child.PID, r)
	syscall.Exit(0)
	return nil
}

// reapAll collects whoever ends, until there is nobody.
func reapAll(command int, r *reporter) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == command:
			status := uint32(ws)
			r.say(message{Status: &status})
		}
	}
}

// pidLimitWords say that limitPIDs was done.
const pidLimitWords = "process limit by the pid namespace"

// leastPIDs is the least that Linux lets pid_max be.
const leastPIDs = 301

// limitPIDs bounds the tasks of the namespace. Before Linux 6.14 pid_max is the whole machine's, and not ours to write.
func limitPIDs(most int) error {
	return os.WriteFile("/proc/sys/kernel/pid_max", fmt.Appendf(nil, "%d", max(most, leastPIDs)), 0)
}

// raiseLoopback lets the command talk to itself.
func raiseLoopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var request struct { // struct ifreq, netdevice(7)
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}
