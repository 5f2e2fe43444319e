package sandbox

import "syscall"

// auditArch identifies the architecture to a filter.
const auditArch = 0xc000003e

// firstForeignCall is the first number of the x32 system calls, which are the same calls with other
// numbers.
const firstForeignCall = 0x40000000

const (
	sysSeccomp      = 317
	sysSchedSetattr = 314
)

func forbiddenOnArch() []uint32 {
	return []uint32{
		syscall.SYS_IOPERM, syscall.SYS_IOPL,
		303, 304, // name_to_handle_at, open_by_handle_at
		305,                // clock_adjtime
		308,                // setns
		310, 311, 312, 320, // process_vm_readv, process_vm_writev, kcmp, kexec_file_load
		313, 321, 323, // finit_module, bpf, userfaultfd
		syscall.SYS_ADJTIMEX, syscall.SYS_USELIB, syscall.SYS_USTAT, syscall.SYS_SYSFS, syscall.SYS__SYSCTL,
	}
}
