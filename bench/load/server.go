package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTime is how long a server may take to end when it was asked to.
const stopTime = 30 * time.Second

// server is the program itself, in a process of its own.
type server struct {
	cmd   *exec.Cmd
	url   string
	token string
	most  atomic.Int64 // bytes in RAM, at most, as far as looked
}

// startServer builds the program and serves a data directory below dir, with more flags.
func startServer(ctx context.Context, dir string, progress io.Writer, more ...string) (*server, error) {
	binary, data := filepath.Join(dir, "perdure"), filepath.Join(dir, "data")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/perdure/perdure/cmd/perdure")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = progress
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the server: %w", err)
	}
	s, err := launch(exec.CommandContext(ctx, binary, append([]string{"serve", "--data", data, "--addr", "127.0.0.1:0"}, more...)...), nil)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.token = strings.TrimSpace(string(token))
	return s, nil
}

// launch starts a program that says where it serves. order writes what it reads before; nil: nothing.
func launch(cmd *exec.Cmd, order func(io.Writer) error) (*server, error) {
	s := &server{cmd: cmd}
	var talk strings.Builder // read only when the process has ended
	cmd.Stderr = &talk
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	if order != nil {
		var text bytes.Buffer
		if err := order(&text); err != nil {
			return nil, err
		}
		cmd.Stdin = &text
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("start the server: it did not say where it is: %w: %s", errors.Join(err, s.stop()), talk.String())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// stop asks the server to end, and kills it when it does not.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server ended badly: %w", err)
	}
	return nil
}

// residentBytes is the memory of the server that is in RAM; 0 where the system does not say.
func (s *server) residentBytes() int64 { return residentBytes(s.cmd.Process.Pid) }

func residentBytes(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// watch keeps the most that the server has in RAM, until ctx ends.
func (s *server) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s.most.Store(max(s.most.Load(), s.residentBytes()))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// threads is how many threads of the system the server has; 0 where the system does not say.
func (s *server) threads() int64 {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/task")
	if err != nil {
		return 0
	}
	return int64(len(tasks))
}
