//go:build unix

package chaos

import (
	"os"
	"syscall"
)

func pauseProcess(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
func terminate(p *os.Process) error     { return p.Signal(syscall.SIGTERM) }

// SetProcessGroup detaches a new process from the signals of the terminal.
func SetProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
