//go:build !linux

package sandbox

import (
	"fmt"
	"runtime"
)

// Entry is for the first line of main. On this system there are no stages, and it returns.
func Entry() {}

// Try refuses every profile that confines, since this is not Linux.
func Try(string, Config) (View, error) {
	return NoView, fmt.Errorf("%w: %s", Unenforceable, missing())
}

// Facts says that no profile works here.
func Facts(string) []Fact {
	return []Fact{{Part: "profile workspace", Why: missing()}, {Part: "profile isolated", Why: missing()}}
}

func missing() string { return "Linux is required, and this is " + runtime.GOOS }
