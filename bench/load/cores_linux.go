package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// cores are the CPUs that a thread may run on, as for sched_setaffinity(2).
type cores [1024 / 64]uint64

// splitCPUs calls start so that the process it starts gets the first half of the CPUs, and gives
// the second half to this process until release is called. So neither slows the other down, and
// results at different loads are comparable. With a single CPU both share it.
func splitCPUs(start func() error) (release func() error, err error) {
	runtime.LockOSThread() // a process inherits the CPUs of the thread that starts it
	defer runtime.UnlockOSThread()
	var all cores
	if _, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(all),
		uintptr(unsafe.Pointer(&all))); failed != 0 {
		return nil, fmt.Errorf("get the CPU affinity: %w", failed)
	}
	first, second := all.halves()
	if err := first.set(0); err != nil {
		return nil, err
	}
	procs := runtime.GOMAXPROCS(0)
	release = func() error { runtime.GOMAXPROCS(procs); return all.setAll() }
	if err := errors.Join(start(), second.setAll()); err != nil {
		return nil, errors.Join(err, release())
	}
	runtime.GOMAXPROCS(second.count())
	return release, nil
}

// halves splits the CPUs.
func (c *cores) halves() (first, second cores) {
	given, most := 0, max(1, c.count()/2)
	for i := range 1024 {
		bit := uint64(1) << (i % 64)
		switch {
		case c[i/64]&bit == 0:
			continue
		case given < most:
			first[i/64] |= bit
		default:
			second[i/64] |= bit
		}
		given++
	}
	if second.count() == 0 {
		second = first
	}
	return first, second
}

func (c *cores) count() (n int) {
	for i := range 1024 {
		if c[i/64]&(1<<(i%64)) != 0 {
			n++
		}
	}
	return n
}

// set assigns the CPUs to a thread; 0: to this one.
func (c *cores) set(thread int) error {
	_, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(thread), unsafe.Sizeof(*c),
		uintptr(unsafe.Pointer(c)))
	if failed != 0 && failed != syscall.ESRCH { // the thread is gone
		return fmt.Errorf("set the CPU affinity: %w", failed)
	}
	return nil
}

// setAll assigns the CPUs to all threads of this process; new threads inherit them.
func (c *cores) setAll() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, one := range threads {
		id, err := strconv.Atoi(one.Name())
		if err == nil {
			err = c.set(id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
