//go:build !linux

package supervise

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

const selfProgram = ""

// Entry is for the first line of main. On this system nothing can be supervised, and it returns.
func Entry() { entered.Store(true) }

// bootAndNamespace fails, and with it New, so the rest of this file is never called.
func bootAndNamespace() (string, string, error) { return "", "", missing() }

func missing() error {
	return fmt.Errorf("proc, and this is %s/proc, and this is %s", Unsupported, runtime.GOOS)
}

func processAlive(int, uint64) bool                   { return false }
func signalProcess(int, uint64, syscall.Signal) error { return missing() }
func killRemains(context.Context, Record) error       { return missing() }
func launch(string, string, *os.File) (int, error)    { return 0, missing() }
func reapChild(int) (bool, int, syscall.Signal)       { return true, -1, 0 }
func lockDir(string) (func(), error)                  { return nil, missing() }
func killChild(int) error                             { return missing() }
func (*Inspection) addTree() error                    { return missing() }
