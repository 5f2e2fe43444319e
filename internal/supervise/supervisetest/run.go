package supervisetest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// chunkMaxBytes is the maximum size of a supervise.Chunk.
const chunkMaxBytes = 64 << 10

// fakeRun is one run directory and its command. Its fields are guarded by world.mu, except for
// those that start sets.
type fakeRun struct {
	world *World
	state supervise.Remains // Prepared, Revoked, or Alive for every started run

	// Set by start, then immutable.
	command supervise.Command
	record  supervise.Record
	began   time.Time
	term    chan struct{}
	dead    chan struct{}
	wake    chan struct{} // capacity 1: there is something to check

	killed           bool // dead is closed
	supervisorKilled bool // the supervisor was killed
	killAt           time.Time
	terminated       bool // term is closed
	cancelled        bool
	timedOut         bool
	chunks           []supervise.Chunk
	outputBytes      int64
	rotated          int64
	exit             *supervise.Exit
	changed          chan struct{} // closed and replaced at every change that a follower waits for
}

func (r *fakeRun) isRunning() bool {
	return r.state == supervise.Alive && r.exit == nil && !r.supervisorKilled
}

// broadcast wakes everyone who waits for a change.
func (r *fakeRun) broadcast() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *fakeRun) kill() {
	if !r.killed {
		r.killed = true
		close(r.dead)
	}
}

// start is called with world.mu held.
func (r *fakeRun) start(pid int, c supervise.Command) {
	c.OutputMaxBytes = cmp.Or(c.OutputMaxBytes, supervise.DefaultOutputMaxBytes)
	c.OutputMaxBytes = max(c.OutputMaxBytes, supervise.MinOutputMaxBytes)
	c.Grace = cmp.Or(c.Grace, supervise.DefaultGrace)
	r.state, r.command, r.began = supervise.Alive, c, time.Now()
	r.term, r.dead, r.wake = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	r.record = supervise.Record{
		Version: 1, Host: "world", BootID: "world", PIDNamespace: "world",
		PID: pid, StartTime: uint64(pid), CommandPID: pid + 1, CommandStartTime: uint64(pid),
		Program: c.Argv[0], StartedAt: r.began,
	}
	program := r.world.programs[c.Argv[0]]
	if program == nil {
		r.end(supervise.Exit{Code: 127, Error: fmt.Sprintf("program %q is not installed in this world", c.Argv[0])})
		return
	}
	result := make(chan int, 1) // capacity 1: after SIGKILL nobody receives from it
	r.world.goroutines.Go(func() {
		result <- program(Process{
			Args: c.Argv, Env: c.Env, Term: r.term, Dead: r.dead,
			Stdout: stream{r, supervise.Stdout}, Stderr: stream{r, supervise.Stderr},
		})
	})
	r.world.goroutines.Go(func() { r.supervise(result) })
}

// supervise waits for the end of the command, or ends it.
func (r *fakeRun) supervise(result <-chan int) {
	var timeout <-chan time.Time
	if r.command.Timeout > 0 {
		timeout = time.After(r.command.Timeout)
	}
	kill := time.NewTimer(0)
	kill.Stop()
	defer kill.Stop()
	for {
		select {
		case code := <-result:
			r.finish(supervise.Exit{Code: code})
			return
		case <-timeout:
			r.world.mu.Lock()
			r.timedOut = true
			r.beginEnd(r.command.Grace)
			r.world.mu.Unlock()
		case <-kill.C:
			r.finish(supervise.Exit{Code: 128 + 9, Signal: 9})
			return
		case <-r.dead:
			return
		case <-r.wake:
			r.world.mu.Lock()
			kill.Reset(time.Until(r.killAt))
			r.world.mu.Unlock()
		}
	}
}

func (r *fakeRun) finish(e supervise.Exit) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if r.isRunning() {
		r.end(e)
	}
}

// end is called with world.mu held.
func (r *fakeRun) end(e supervise.Exit) {
	e.Version, e.Cancelled, e.TimedOut, e.TreeGone = 1, r.cancelled, r.timedOut, true
	e.StartedAt, e.EndedAt = r.began, time.Now()
	e.OutputBytes, e.RotatedBytes = r.outputBytes, r.rotated
	r.exit = &e
	r.kill()
	r.broadcast()
}

// requestStop applies the request, unless an earlier one ends sooner.
func (r *fakeRun) requestStop(grace time.Duration) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if !r.isRunning() {
		return
	}
	r.cancelled = true
	r.beginEnd(grace)
}

// beginEnd asks the command to end, and has it killed after grace. It is called with world.mu held.
func (r *fakeRun) beginEnd(grace time.Duration) {
	if !r.terminated {
		r.terminated = true
		close(r.term)
	}
	if at := time.Now().Add(max(grace, 0)); r.killAt.IsZero() || at.Before(r.killAt) {
		r.killAt = at
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// snapshot is the state of a run for a follower.
type snapshot struct {
	chunks  []supervise.Chunk
	exit    *supervise.Exit
	gone    bool
	changed <-chan struct{}
}

// snapshot returns the output from the offset from on, and the state of the run.
func (r *fakeRun) snapshot(from int64) snapshot {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	s := snapshot{exit: r.exit, gone: r.supervisorKilled, changed: r.changed}
	for _, c := range r.chunks {
		skip := max(from-c.Offset, 0)
		if skip < int64(len(c.Bytes)) {
			c.Offset += skip
			c.Bytes = bytes.Clone(c.Bytes[skip:])
			s.chunks = append(s.chunks, c)
		}
	}
	return s
}

// stream is the writer for one stream of the command.
type stream struct {
	run  *fakeRun
	name supervise.Stream
}

// rotate drops chunks between the first half of the limit and the last half, oldest first.
func (r *fakeRun) rotate() {
	first := 0
	for first < len(r.chunks) && r.chunks[first].Offset+int64(len(r.chunks[first].Bytes)) <= r.command.OutputMaxBytes/2 {
		first++
	}
	gone := first
	for gone < len(r.chunks) && r.outputBytes-r.chunks[gone].Offset > r.command.OutputMaxBytes/2 {
		r.rotated += int64(len(r.chunks[gone].Bytes))
		gone++
	}
	r.chunks = slices.Delete(r.chunks, first, gone)
}

// Write stores b while the run is alive.
func (s stream) Write(b []byte) (int, error) {
	r := s.run
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if !r.isRunning() {
		return 0, fmt.Errorf("write %s: the process was killed", s.name)
	}
	for rest := b; len(rest) > 0; {
		n := min(len(rest), chunkMaxBytes)
		at := time.Now().Truncate(time.Microsecond)
		r.chunks = append(r.chunks, supervise.Chunk{Offset: r.outputBytes, Stream: s.name, At: at, Bytes: bytes.Clone(rest[:n])})
		r.outputBytes += int64(n)
		rest = rest[n:]
	}
	r.rotate()
	r.broadcast()
	return len(b), nil
}
