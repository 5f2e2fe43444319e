//go:build !linux

package sandbox

import (
	"fmt"
	"runtime"
)

// Entry is for the first line of main; on this system there are no stages, and it returns.
func Entry() {}

// Try refuses every profile that confines: this is no Linux.
func Try(string, Config) error { return fmt.Errorf("%w: %s", Unenforceable, missing()) }

// Facts says that nothing holds here.
func Facts(string) []Fact {
	return []Fact{{What: "profile workspace", Why: missing()}, {What: "profile isolated", Why: missing()}}
}

func missing() string { return "it needs Linux, and this is " + runtime.GOOS }
