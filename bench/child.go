package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// The environment variables of child processes.
const (
	childRole = "PERDURE_BENCH_ROLE" // the role; unset: none, this is the parent
	childDir  = "PERDURE_BENCH_DIR"  // its folder
	childURL  = "PERDURE_BENCH_URL"  // its Postgres database; empty: SQLite in its folder
	childRuns = "PERDURE_BENCH_RUNS" // number of runs that it parks

	childProfiles = "PERDURE_BENCH_PROFILES" // folder for its profiles; empty: none
)

// childPatience is how long a child may be silent.
const childPatience = 10 * time.Minute

// runChild plays a role until it is done, is killed, or loses its parent.
func runChild(ctx context.Context, role string, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin) // the pipe closes when the parent is gone
		stop()
	}()
	runs, err := strconv.Atoi(os.Getenv(childRuns))
	if err != nil {
		return fmt.Errorf("read %s: %w", childRuns, err)
	}
	at := engineRigConfig{Dir: os.Getenv(childDir), URL: os.Getenv(childURL)}
	switch role {
	case roleRecover:
		if at.URL != "" {
			at.Lease = recoveryLease
		}
		return runRecoverRole(ctx, at, runs, out)
	case roleStandby:
		return runRecoverRole(ctx, at, runs, out)
	case rolePark:
		return runParkRole(ctx, at, runs, out)
	case roleWait:
		return runWaitRole(ctx, at, runs, out)
	}
	return fmt.Errorf("unknown role %q", role)
}

// child is a process with a role.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan line // closed at the end of its output
}

// line is a line of output, and when it was received.
type line struct {
	text string
	at   time.Time
}

// roleOptions is a role with its parameters.
type roleOptions struct {
	role     string
	at       engineRigConfig // only Dir and URL are used
	runs     int
	profiles string // a folder; empty: none
}

func (l *runner) startRole(role string, at engineRigConfig, runs int) roleOptions {
	return roleOptions{role: role, at: at, runs: runs, profiles: l.profile}
}

// startChild starts this program with a role.
func startChild(ctx context.Context, p roleOptions) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// capacity 16: more than a child prints
	c := &child{cmd: exec.CommandContext(ctx, self), lines: make(chan line, 16)}
	c.cmd.Env = append(os.Environ(), childRole+"="+p.role, childDir+"="+p.at.Dir, childURL+"="+p.at.URL,
		childRuns+"="+strconv.Itoa(p.runs), childProfiles+"="+p.profiles)
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	c.stdin = stdin
	go func() { // ends with the child's output
		defer close(c.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			c.lines <- line{text: lines.Text(), at: time.Now()}
		}
	}()
	return c, nil
}

// readLines returns the next line that matches a format of fmt.Sscanf, and its values.
func (c *child) readLines(ctx context.Context, format string, places ...any) (line, error) {
	limit := time.After(childPatience)
	for {
		select {
		case said, ok := <-c.lines:
			if !ok {
				return line{}, errors.New("the child exited early")
			}
			if _, err := fmt.Sscanf(said.text, format, places...); err == nil {
				return said, nil
			}
		case <-limit:
			return line{}, fmt.Errorf("the child did not print %q within %s", format, childPatience)
		case <-ctx.Done():
			return line{}, context.Cause(ctx)
		}
	}
}

// kill kills the child and returns when it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone already
	for range c.lines {
	}
	_ = c.cmd.Wait() // the error only says that it was killed
	_ = c.stdin.Close()
}
