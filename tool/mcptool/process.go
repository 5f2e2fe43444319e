package mcptool

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// How long a server that is to end may take, once its input has ended, once it is interrupted, and once it is killed.
const (
	inputTime     = 2 * time.Second
	interruptTime = 5 * time.Second
	killTime      = time.Second
)

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

// end ends it, kindly at first, and returns when it is gone. A process that left the group goes on, but is not listened to.
func (p *process) end() {
	_ = p.in.Close() // it may have ended
	if p.goneWithin(inputTime) {
		return
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGINT) // likewise
	if p.goneWithin(interruptTime) {
		return
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // likewise
	if p.goneWithin(killTime) {
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
