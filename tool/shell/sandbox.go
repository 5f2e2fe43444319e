package shell

import "github.com/perdure/perdure/internal/supervise"

// Profile is the degree of confinement of a command. The zero value is ProfileNone.
type Profile = supervise.Profile

// The profiles.
const (
	ProfileNone      = supervise.ProfileNone
	ProfileWorkspace = supervise.ProfileWorkspace
	ProfileIsolated  = supervise.ProfileIsolated
)

// Limits are the resource limits of a confined command: zero is the default of each, a negative
// number means unlimited.
type Limits = supervise.Limits

// Enforcement reports whether this machine can enforce a part of the sandbox or a profile, and why
// not.
type Enforcement = supervise.Enforcement

// Enforced reports what this machine can enforce of the sandbox: each part, and then each profile,
// which it tries. The program must call [Supervise] first.
func Enforced() []Enforcement { return supervise.Enforced(supervise.Config{}) }
