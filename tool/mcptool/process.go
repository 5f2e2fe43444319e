package mcptool

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// defaultStop is the time that a server gets to exit: a fifth of it after its input is closed, half
// after SIGINT, and a tenth after SIGKILL.
const defaultStop = 10 * time.Second

// process is a server with all its child processes, in a process group of its own: a command is
// often a shell, or another program that starts the server.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     io.ReadCloser
	exited  chan struct{} // closed when it has exited and its output is closed
}

// startProcess starts a server.
func startProcess(words []string) (*process, error) {
	command := exec.Command(words[0], words[1:]...)
	command.Stderr, command.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setpgid: true}
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return &process{command, in, out, make(chan struct{})}, nil
}

// wait waits for the exit. All output must have been read before.
func (p *process) wait() error {
	defer close(p.exited)
	return p.command.Wait()
}

// end stops the process within a time, gently at first, and returns when it is gone. A process that
// left the group keeps running, but its output is not read any more.
func (p *process) end(within time.Duration) {
	_ = p.in.Close() // it may have exited already
	if p.exitedWithin(within / 5) {
		return
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGINT) // likewise
	if p.exitedWithin(within / 2) {
		return
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // likewise
	if p.exitedWithin(within / 10) {
		return
	}
	_ = p.out.Close() // ends the reading of its output
	<-p.exited
}

func (p *process) exitedWithin(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}
