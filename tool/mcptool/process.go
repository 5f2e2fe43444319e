package mcptool

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// defaultStop is how long a server that is to end may take: a fifth of it once its input has ended, half of it
// once it is interrupted, and a tenth once it is killed.
const defaultStop = 10 * time.Second

// process is a server with all that it starts, which is a process group of its own: a command is often a shell, or another program that
// starts the server.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     io.ReadCloser
	gone    chan struct{} // closed when it has ended, and nobody holds its output
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

// wait waits until it has ended. All that it said was read before.
func (p *process) wait() error {
	defer close(p.gone)
	return p.command.Wait()
}

// end ends it within a time, kindly at first, and returns when it is gone. A process that left the group goes on, but is not listened to.
func (p *process) end(within time.Duration) {
	_ = p.in.Close() // it may have ended
	if p.goneWithin(within / 5) {
		return
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGINT) // likewise
	if p.goneWithin(within / 2) {
		return
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // likewise
	if p.goneWithin(within / 10) {
		return
	}
	_ = p.out.Close() // so that whoever listens stops
	<-p.gone
}

func (p *process) goneWithin(d time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(d):
		return false
	}
}
