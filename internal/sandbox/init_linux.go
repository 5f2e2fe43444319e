package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// runInit is the first process of the command's pid namespace: when it ends, the kernel kills all
// processes in it. It builds the command's view of the machine, starts the command, reports how it
// ended, and exits when no process is left. It returns only the reason why the command could not be
// started.
func runInit(o Order, r *reporter) error {
	// A stop is sent as SIGTERM to the whole process group. It is meant for the command; the init
	// must survive it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE)
	if err := makeScratch(string(o.Scratch)); err != nil {
		return fmt.Errorf("create the scratch directory: %w", err)
	}
	if err := buildView(o); err != nil {
		return fmt.Errorf("%w: build the command's view of the file system: %w", Unenforceable, err)
	}
	// No other process in the namespace may inspect this one.
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
	o.Parent = 0 // our parent is in another namespace; the stage dies with us anyway
	s, err := spawn(stageStart{stage: "stage", std: [3]uintptr{0, 1, 2}, sys: &syscall.SysProcAttr{}}, o)
	if err != nil {
		return err
	}
	child, err := s.await()
	if err != nil {
		return err
	}
	s.report.Close()
	r.report(message{Enforced: append(enforced, child.Enforced...)})
	if o.Trial {
		syscall.Exit(0)
	}
	// Only the command may hold the streams open, so that their end shows when it is done.
	for fd := range 3 {
		syscall.Close(fd)
	}
	r.report(message{Started: true})
	reapAll(child.PID, r)
	syscall.Exit(0)
	return nil
}

// reapAll reaps every process that ends, until there is none left.
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
			r.report(message{Status: &status})
		}
	}
}

// pidLimitWords say that limitPIDs succeeded.
const pidLimitWords = "process limit by the pid namespace"

// minPIDMax is the smallest pid_max that Linux accepts.
const minPIDMax = 301

// limitPIDs limits the tasks of the namespace. Before Linux 6.14 pid_max is global, and we may not
// write it.
func limitPIDs(limit int) error {
	return os.WriteFile("/proc/sys/kernel/pid_max", fmt.Appendf(nil, "%d", max(limit, minPIDMax)), 0)
}

// raiseLoopback enables the loopback interface of the command's network namespace.
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
