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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTime is the time limit of a stop.
const stopTime = 30 * time.Second

// server is the real program in a separate process.
type server struct {
	cmd         *exec.Cmd
	url         string
	token       string
	maxResident atomic.Int64 // maximum resident memory in bytes, as far as sampled
	log         serverLog
}

// serverLog is the output of a server, and its memory in use after each collection, from gctrace.
// It is safe for concurrent use.
type serverLog struct {
	mu        sync.Mutex
	text      strings.Builder // guarded by mu, like the fields below
	liveBytes []int64         // bytes of objects and stacks in use after each collection
}

// collection finds the memory in use after a collection and the stacks in a line of gctrace, in MB.
var collection = regexp.MustCompile(`->(\d+) MB, \d+ MB goal, (\d+) MB stacks`)

// Write records output.
func (t *serverLog) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, found := range collection.FindAllSubmatch(text, -1) {
		objects, _ := strconv.ParseInt(string(found[1]), 10, 64) // digits
		stacks, _ := strconv.ParseInt(string(found[2]), 10, 64)
		t.liveBytes = append(t.liveBytes, (objects+stacks)*mib)
	}
	return t.text.Write(text)
}

// live returns the median memory in use after the collections since the last call; 0: there was
// none.
func (t *serverLog) live() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := slices.Sorted(slices.Values(t.liveBytes))
	t.liveBytes = nil
	if len(since) == 0 {
		return 0
	}
	return since[len(since)/2]
}

func (t *serverLog) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// build builds the program once for all sections.
func build(ctx context.Context, dir string, progress io.Writer) (string, error) {
	binary := filepath.Join(dir, "perdure")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/perdure/perdure/cmd/perdure")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = progress
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the server: %w", err)
	}
	return binary, nil
}

// environment is the environment of a section.
type environment struct {
	*server
	dir      string // of this section only
	progress io.Writer
}

// with runs a section with a server of its own, and cleans up.
func (c section) with(ctx context.Context, o options, progress io.Writer) (f result, faults []error, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the section took longer than %s", c.limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "perdure-load-")
	if err != nil {
		return nil, nil, fmt.Errorf("create a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(ctx, o.binary,
		append([]string{"serve", "--data", data, "--addr", "127.0.0.1:0"}, c.flags...)...)
	cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	s, release, err := c.start(cmd)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.stop(), release()) }()
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		return nil, nil, err
	}
	s.token = strings.TrimSpace(string(token))
	f, faults, err = c.measure(ctx, o, environment{s, dir, progress})
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return f, faults, err
}

// start starts a server, on its own CPUs if the section wants that. release undoes that.
func (c section) start(cmd *exec.Cmd) (s *server, release func() error, err error) {
	if !c.apart {
		s, err = launch(cmd, nil)
		return s, func() error { return nil }, err
	}
	release, err = splitCPUs(func() (err error) {
		s, err = launch(cmd, nil)
		return err
	})
	return s, release, err
}

// launch starts a program that prints its address. order writes its input; nil: none.
func launch(cmd *exec.Cmd, order func(io.Writer) error) (*server, error) {
	s := &server{cmd: cmd}
	cmd.Stderr = &s.log
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
		return nil, fmt.Errorf("start the server: it printed no address: %w: %s", errors.Join(err, s.stop()),
			s.log.String())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// stop stops the server, and kills it when that takes too long.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server exited with an error: %w", err)
	}
	return nil
}

// residentBytes returns the resident memory of the server; 0: unknown.
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

// watch records the maximum resident memory of the server until ctx ends.
func (s *server) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s.maxResident.Store(max(s.maxResident.Load(), s.residentBytes()))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// threads returns the number of threads of the server; 0: unknown.
func (s *server) threads() int64 {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/task")
	if err != nil {
		return 0
	}
	return int64(len(tasks))
}

// ticksASecond is the unit of /proc/PID/stat: USER_HZ, which is the same on all Linux platforms of
// Go (proc(5)).
const ticksASecond = 100

// busy returns the CPU time of the server; 0: unknown.
func (s *server) busy() time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // rest starts with the third field
	if len(fields) <= system {
		return 0
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksASecond
}
