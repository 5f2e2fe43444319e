package app

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// oldKernel runs a command on a simulated kernel without Landlock: the creation of a ruleset fails
// as an unknown system call.
func oldKernel() {
	const (
		noNewPrivs, setSeccomp, filterMode = 38, 22, 2 // prctl(2)
		load, jumpEqual, answer            = 0x20, 0x15, 0x06
		createRuleset                      = 444 // on every architecture
		allow, fail                        = 0x7fff0000, 0x00050000 | uint32(syscall.ENOSYS)
	)
	filter := []syscall.SockFilter{
		{Code: load, K: 0}, {Code: jumpEqual, Jf: 1, K: createRuleset}, {Code: answer, K: fail}, {Code: answer, K: allow},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the filter applies to this thread, and is inherited by what it executes
	_, _, first := syscall.Syscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0)
	_, _, second := syscall.Syscall(syscall.SYS_PRCTL, setSeccomp, filterMode, uintptr(unsafe.Pointer(&program)))
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "oldkernel:", first, second, err)
	os.Exit(125)
}
