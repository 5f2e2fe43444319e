//go:build unix

package chaos

import (
	"os"
	"syscall"
)

func pauseProcess(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
func terminate(p *os.Process) error     { return p.Signal(syscall.SIGTERM) }

// Apart keeps the signals of a terminal from a process that is to be started.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
