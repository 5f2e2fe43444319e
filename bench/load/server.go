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

// stopTime is how long a server may take to end when it was asked to.
const stopTime = 30 * time.Second

// server is the program itself, in a process of its own.
type server struct {
	cmd   *exec.Cmd
	url   string
	token string
	most  atomic.Int64 // bytes in RAM, at most, as far as looked
	talk  talk
}

// talk is what a server says on the way, and what it held when its memory was looked through, which gctrace says. It is safe
// for concurrent use.
type talk struct {
	mu    sync.Mutex
	text  strings.Builder // guarded by mu, as are the fields below
	lives []int64         // bytes of objects and stacks in use after each collection
}

// collection finds in a line of gctrace what was in use after it, in MB, and the stacks.
var collection = regexp.MustCompile(`->(\d+) MB, \d+ MB goal, (\d+) MB stacks`)

// Write takes what the server says.
func (t *talk) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, found := range collection.FindAllSubmatch(text, -1) {
		objects, _ := strconv.ParseInt(string(found[1]), 10, 64) // digits
		stacks, _ := strconv.ParseInt(string(found[2]), 10, 64)
		t.lives = append(t.lives, (objects+stacks)*mib)
	}
	return t.text.Write(text)
}

// live is the median of what was in use after each collection since it was last asked for; 0: there was none.
func (t *talk) live() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := slices.Sorted(slices.Values(t.lives))
	t.lives = nil
	if len(since) == 0 {
		return 0
	}
	return since[len(since)/2]
}

func (t *talk) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// build makes the program that is loaded, once for all sections.
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

// site is where a section is measured.
type site struct {
	*server
	dir      string // of the section alone
	progress io.Writer
}

// with measures a section with a server of its own, of which nothing is left when it returns.
func (c section) with(ctx context.Context, o options, progress io.Writer) (f printed, faults []error, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("it took longer than %s", c.limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "perdure-load-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(ctx, o.binary, append([]string{"serve", "--data", data, "--addr", "127.0.0.1:0"}, c.flags...)...)
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
	f, faults, err = c.measure(ctx, o, site{s, dir, progress})
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return f, faults, err
}

// start starts a server, on processor cores of its own where the section wants it so. release undoes that.
func (c section) start(cmd *exec.Cmd) (s *server, release func() error, err error) {
	if !c.apart {
		s, err = launch(cmd, nil)
		return s, func() error { return nil }, err
	}
	release, err = apart(func() (err error) {
		s, err = launch(cmd, nil)
		return err
	})
	return s, release, err
}

// launch starts a program that says where it serves. order writes what it reads before; nil: nothing.
func launch(cmd *exec.Cmd, order func(io.Writer) error) (*server, error) {
	s := &server{cmd: cmd}
	cmd.Stderr = &s.talk
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
		return nil, fmt.Errorf("start the server: it did not say where it is: %w: %s", errors.Join(err, s.stop()), s.talk.String())
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

// ticksASecond is in what /proc/PID/stat counts: USER_HZ, which is the same on all of Linux's machines that Go runs on (proc(5)).
const ticksASecond = 100

// busy is for how long the server has been on a processor; 0 where the system does not say.
func (s *server) busy() time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may hold spaces
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // of which the third is the first of the rest
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
