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

// startTime is how long a child has to show a sign of life.
const startTime = 60 * time.Second

// Loop starts a program, kills it with SIGKILL at seeded random moments, and starts it again, until the kills
// are used up; then it lets the program finish.
type Loop struct {
	Kills   int
	Seed    int64
	MinLife time.Duration // from the sign of life to the kill
	MaxLife time.Duration
	// Command makes the program's next start; with last it is to finish all its work and end by itself. It
	// writes one line to its standard output when it has come so far that it moves.
	Command func(last bool) *exec.Cmd
	Tell    Teller
}

// Teller hears what happens. Its methods are called one after another.
type Teller interface {
	// Up says that a start moves: its pid, and how long that took.
	Up(pid int, took time.Duration)
	// Down says that a start was killed.
	Down(pid int, kill int)
}

// Run turns the loop and returns what only it knows. A start that shows no sign of life, or ends by itself
// before it is told to, is an error.
func (l Loop) Run(ctx context.Context) (Run, error) {
	run := Run{Seed: l.Seed, Kills: l.Kills}
	dice := rand.New(rand.NewPCG(uint64(l.Seed), 0x70657264757265)) // the seed alone decides when
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

// round is one life: start, sign of life, kill.
func (l Loop) round(ctx context.Context, kill int, life time.Duration) (time.Duration, error) {
	child, err := l.start(ctx, false)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(life):
	case err := <-child.ended:
		return child.took, fmt.Errorf("it ended by itself: %w", orEnd(err))
	case <-ctx.Done():
		child.kill()
		return child.took, context.Cause(ctx)
	}
	child.kill()
	l.Tell.Down(child.pid, kill)
	return child.took, nil
}

// last is the life that ends by itself.
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

// child is one start of the program.
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
	alive := make(chan error, 1) // capacity 1: nobody may be listening any more
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		alive <- err
		_, _ = io.Copy(io.Discard, out) // until it ends
		c.ended <- c.cmd.Wait()
	}()
	select {
	case err = <-alive:
	case <-time.After(startTime):
		err = fmt.Errorf("no sign of life for %s", startTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		c.kill()
		return nil, fmt.Errorf("wait for its sign of life: %w", err)
	}
	c.took = time.Since(begun)
	l.Tell.Up(c.pid, c.took)
	return c, nil
}

// kill ends the process at once and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

func orEnd(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
