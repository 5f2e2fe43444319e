//go:build !unix

package chaos

import (
	"fmt"
	"os"
	"syscall"

	"github.com/perdure/perdure"
)

func pauseProcess(*os.Process) error {
	return fmt.Errorf("%w: this system cannot suspend processes", perdure.Unavailable)
}

func resumeProcess(*os.Process) error { return nil }
func terminate(p *os.Process) error   { return p.Kill() }

// Apart detaches a new process from the signals of the terminal. This system has no such signals.
func Apart() *syscall.SysProcAttr { return nil }
