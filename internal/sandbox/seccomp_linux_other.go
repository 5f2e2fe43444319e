//go:build linux && !amd64 && !arm64

package sandbox

// There is no filter for this architecture, so profiles that confine are refused.
const (
	auditArch        = 0
	firstForeignCall = 0xffffffff
	sysSeccomp       = 0
	sysSchedSetattr  = 0
)

func forbiddenOnArch() []uint32 { return nil }
