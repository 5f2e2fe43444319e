//go:build !unix

package chaos

import (
	"fmt"
	"os"
	"syscall"

	"github.com/perdure/perdure"
)

func pauseProcess(*os.Process) error {
	return fmt.Errorf("%w: this system cannot stop a process for a while", perdure.Unavailable)
}

func resumeProcess(*os.Process) error { return nil }
func terminate(p *os.Process) error   { return p.Kill() }

// Apart keeps the signals of a terminal from a process that is to be started. This system has none.
func Apart() *syscall.SysProcAttr { return nil }
