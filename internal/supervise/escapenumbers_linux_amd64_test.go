package supervise_test

// Numbers of calls that the package syscall does not have on every architecture.
const (
	sysNameToHandle = 303
	sysOpenByHandle = 304
	sysSetns        = 308
	sysProcessRead  = 310
	sysBPF          = 321
)
