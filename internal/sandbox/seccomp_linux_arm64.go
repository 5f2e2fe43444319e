package sandbox

import "syscall"

// auditArch names the architecture to a filter.
const auditArch = 0xc00000b7

// firstForeignCall is higher than all system calls: this architecture has one set of numbers.
const firstForeignCall = 0xffffffff

const (
	sysSeccomp      = 277
	sysSchedSetattr = 274
)

func forbiddenOnArch() []uint32 {
	return []uint32{
		264, 265, // name_to_handle_at, open_by_handle_at
		266,                // clock_adjtime
		268,                // setns
		270, 271, 272, 294, // process_vm_readv, process_vm_writev, kcmp, kexec_file_load
		273, 280, 282, // finit_module, bpf, userfaultfd
		syscall.SYS_ADJTIMEX,
	}
}
