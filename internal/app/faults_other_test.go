//go:build !linux

package app

import "github.com/rogpeppe/go-internal/testscript"

// hostCommands returns the script commands that only this system has: none.
func hostCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){}
}

// mayMount reports whether file systems can be mounted here.
func mayMount() bool { return false }
