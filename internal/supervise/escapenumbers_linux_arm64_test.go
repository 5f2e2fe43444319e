package supervise_test

// Numbers of calls that the package syscall does not have on every architecture.
const (
	sysNameToHandle = 264
	sysOpenByHandle = 265
	sysSetns        = 268
	sysProcessRead  = 270
	sysBPF          = 280
)
