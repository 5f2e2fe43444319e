package shell

import "github.com/perdure/perdure/internal/supervise"

// Profile is how far a command is kept to its workspace. The zero value is ProfileNone.
type Profile = supervise.Profile

// The profiles.
const (
	ProfileNone      = supervise.ProfileNone
	ProfileWorkspace = supervise.ProfileWorkspace
	ProfileIsolated  = supervise.ProfileIsolated
)

// Limits are what a confined command may use up: zero is the default of each, a negative number is none.
type Limits = supervise.Limits

// Holding says of a part of the sandbox, or of a profile, whether this machine keeps it, and why not.
type Holding = supervise.Holding

// Holds says what of the sandbox this machine can keep, part by part and then profile by profile, each of which is tried. It is
// for a program that calls [Supervise] first.
func Holds() []Holding { return supervise.Holds(supervise.Config{}) }
