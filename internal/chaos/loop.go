package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"time"
)

// startTime is how long a child may take until its first sign of life.
const startTime = 60 * time.Second

// Loop starts a program, kills it with SIGKILL at random times that follow from the seed, and
// starts it again, until all kills are done. Then it lets the program finish.
type Loop struct {
	Kills   int
	Seed    int64
	MinLife time.Duration // from the sign of life to the kill
	MaxLife time.Duration
	// Command returns the command of the next start. With last the program must finish all its work
	// and exit. It writes one line to stdout when its work progresses.
	Command  func(last bool) *exec.Cmd
	Observer LoopObserver
}

// LoopObserver receives what happens. Its methods are called one after another.
type LoopObserver interface {
	// Up reports that a process works: its pid, and how long that took.
	Up(pid int, took time.Duration)
	// Down reports that a process was killed.
	Down(pid int, kill int)
}

// Run runs the loop and returns its results. A process without a sign of life, or one that exits
// before it should, is an error.
func (l Loop) Run(ctx context.Context) (Run, error) {
	run := Run{Seed: l.Seed, Kills: l.Kills}
	dice := rand.New(rand.NewPCG(uint64(l.Seed), 0x70657264757265)) // the seed determines the times
	for kill := 1; kill <= l.Kills; kill++ {
		life := l.MinLife + time.Duration(dice.Int64N(int64(l.MaxLife-l.MinLife)+1))
		took, err := l.round(ctx, kill, life)
		if err != nil {
			return run, fmt.Errorf("start %d: %w", kill, err)
		}
		run.Recoveries = append(run.Recoveries, took)
	}
	took, err := l.last(ctx)
	run.Recoveries = append(run.Recoveries, took)
	return run, err
}

// round is one process: start, sign of life, kill.
func (l Loop) round(ctx context.Context, kill int, life time.Duration) (time.Duration, error) {
	child, err := l.start(ctx, false)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(life):
	case err := <-child.ended:
		return child.took, fmt.Errorf("the process exited early: %w", orExit(err))
	case <-ctx.Done():
		child.kill()
		return child.took, context.Cause(ctx)
	}
	child.kill()
	l.Observer.Down(child.pid, kill)
	return child.took, nil
}

// last starts the process that finishes the work.
func (l Loop) last(ctx context.Context) (time.Duration, error) {
	child, err := l.start(ctx, true)
	if err != nil {
		return 0, fmt.Errorf("last start: %w", err)
	}
	select {
	case err := <-child.ended:
		return child.took, err
	case <-ctx.Done():
		child.kill()
		return child.took, context.Cause(ctx)
	}
}

// child is one process of the program.
type child struct {
	cmd   *exec.Cmd
	pid   int
	took  time.Duration
	ended chan error // capacity 1: the process has ended
}

// start starts the program and waits for its sign of life.
func (l Loop) start(ctx context.Context, last bool) (*child, error) {
	begun := time.Now()
	c := &child{cmd: l.Command(last), ended: make(chan error, 1)}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.pid = c.cmd.Process.Pid
	alive := make(chan error, 1) // capacity 1: the receiver may be gone
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		alive <- err
		_, _ = io.Copy(io.Discard, out) // until it ends
		c.ended <- c.cmd.Wait()
	}()
	select {
	case err = <-alive:
	case <-time.After(startTime):
		err = fmt.Errorf("no sign of life within %s", startTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		c.kill()
		return nil, fmt.Errorf("wait for a sign of life: %w", err)
	}
	c.took = time.Since(begun)
	l.Observer.Up(c.pid, c.took)
	return c, nil
}

// kill kills the process and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

func orExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
