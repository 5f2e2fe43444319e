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

// The environment of the processes that the measurements start.
const (
	childRole = "PERDURE_BENCH_ROLE" // which one; unset: none, this is the program itself
	childDir  = "PERDURE_BENCH_DIR"  // its folder
	childURL  = "PERDURE_BENCH_URL"  // its database in Postgres; empty: SQLite in its folder
	childRuns = "PERDURE_BENCH_RUNS" // how many runs it parks

	childProfiles = "PERDURE_BENCH_PROFILES" // the folder for its profiles; empty: none
)

// childPatience is how long a child may be silent.
const childPatience = 10 * time.Minute

// runChild plays a role until it is done, is killed, or loses its parent.
func runChild(ctx context.Context, role string, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent's end of it closes when the parent is gone
		stop()
	}()
	runs, err := strconv.Atoi(os.Getenv(childRuns))
	if err != nil {
		return fmt.Errorf("read %s: %w", childRuns, err)
	}
	at := worldConfig{Dir: os.Getenv(childDir), URL: os.Getenv(childURL)}
	switch role {
	case roleRecover:
		return playRecover(ctx, at, runs, out)
	case rolePark:
		return playPark(ctx, at, runs, out)
	case roleWait:
		return playWait(ctx, at, runs, out)
	}
	return fmt.Errorf("there is no role %q", role)
}

// child is a started process of a role.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan line // closed at the end of its output
}

// line is what a child said, and when it was heard.
type line struct {
	text string
	at   time.Time
}

// play is a role with what it needs.
type play struct {
	role     string
	at       worldConfig // of which it takes Dir and URL
	runs     int
	profiles string // a folder; empty: none
}

func (l *lab) play(role string, at worldConfig, runs int) play {
	return play{role: role, at: at, runs: runs, profiles: l.profile}
}

// startChild starts this program in a role.
func startChild(ctx context.Context, p play) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &child{cmd: exec.CommandContext(ctx, self), lines: make(chan line, 16)} // more than a child says
	c.cmd.Env = append(os.Environ(), childRole+"="+p.role, childDir+"="+p.at.Dir, childURL+"="+p.at.URL, childRuns+"="+strconv.Itoa(p.runs), childProfiles+"="+p.profiles)
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

// hear returns the next line whose words fit a format of fmt.Sscanf, with what stands in its places.
func (c *child) hear(ctx context.Context, format string, places ...any) (line, error) {
	limit := time.After(childPatience)
	for {
		select {
		case said, ok := <-c.lines:
			if !ok {
				return line{}, errors.New("the child ended in the middle")
			}
			if _, err := fmt.Sscanf(said.text, format, places...); err == nil {
				return said, nil
			}
		case <-limit:
			return line{}, fmt.Errorf("the child did not say %q within %s", format, childPatience)
		case <-ctx.Done():
			return line{}, context.Cause(ctx)
		}
	}
}

// kill ends the child by force and returns when it is gone, with all that it held.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone already
	for range c.lines {
	}
	_ = c.cmd.Wait() // says that it was killed
	_ = c.stdin.Close()
}
