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

// cores are the processor cores that a thread may run on, as sched_setaffinity(2) has them.
type cores [1024 / 64]uint64

// apart has start run where what it starts gets the first half of the processor cores, and gives the second half to this process,
// until release is called. So neither takes its time from the other, and what is done at one load can be compared with what is
// done at another. Without a second core both share the one.
func apart(start func() error) (release func() error, err error) {
	runtime.LockOSThread() // a process inherits the cores of the thread that starts it
	defer runtime.UnlockOSThread()
	var all cores
	if _, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(all), uintptr(unsafe.Pointer(&all))); failed != 0 {
		return nil, fmt.Errorf("ask for the processor cores: %w", failed)
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

// halves deals the cores out.
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

// set gives the cores to a thread; 0: to this one.
func (c *cores) set(thread int) error {
	_, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(thread), unsafe.Sizeof(*c), uintptr(unsafe.Pointer(c)))
	if failed != 0 && failed != syscall.ESRCH { // a thread that is gone needs none
		return fmt.Errorf("take processor cores: %w", failed)
	}
	return nil
}

// setAll gives the cores to all threads of this process, from which those to come inherit them.
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
