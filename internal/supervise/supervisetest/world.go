package supervisetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// World is the part of a fake environment that outlives a runtime: the run directories, and the
// commands, which are Go functions. It uses no processes, files or sockets, so it works in a
// testing/synctest bubble.
//
// It is safe for concurrent use. It must be closed, since its commands are goroutines.
type World struct {
	programs   map[string]Program
	goroutines sync.WaitGroup

	mu      sync.Mutex
	runs    map[string]*fakeRun // guarded by mu, including the fields of fakeRun that are not immutable
	lastPID int                 // guarded by mu
}

// NewWorld returns a world in which exactly these programs are installed.
func NewWorld(programs map[string]Program) *World {
	return &World{programs: programs, runs: map[string]*fakeRun{}, lastPID: 1000}
}

// NewRunner returns a new runtime of the world. Its commands outlive it.
func (w *World) NewRunner() *Runner {
	return &Runner{world: w, dead: make(chan struct{})}
}

// KillSupervisor has the effect of SIGKILL on the supervisor of dir: the command dies, and the run
// is Gone. It does nothing to a run that is not running.
func (w *World) KillSupervisor(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.runs[filepath.Clean(dir)]; r != nil && r.isRunning() {
		r.supervisorKilled = true
		r.kill()
		r.broadcast()
	}
}

// Close kills every command and waits until all have returned.
func (w *World) Close() {
	w.mu.Lock()
	for _, r := range w.runs {
		if r.isRunning() {
			r.supervisorKilled = true
			r.kill()
			r.broadcast()
		}
	}
	w.mu.Unlock()
	w.goroutines.Wait()
}

// Dead is the error of all calls of a Runner after Die.
var Dead = errors.New("this runtime is dead")

// Runner is a supervise.Runner in a World.
type Runner struct {
	world *World
	once  sync.Once
	dead  chan struct{} // closed by Die
}

var _ supervise.Runner = (*Runner)(nil)

// Die ends the runtime and nothing else: from now on all calls of it and of its Runs return Dead,
// including those that are waiting. Requests that it made before remain in effect.
func (r *Runner) Die() { r.once.Do(func() { close(r.dead) }) }

// alive returns Dead, ctx's cause, or nil if the call may proceed.
func (r *Runner) alive(ctx context.Context) error {
	select {
	case <-r.dead:
		return Dead
	default:
		return context.Cause(ctx)
	}
}

// Prepare implements supervise.Runner.
func (r *Runner) Prepare(ctx context.Context, dir string) error {
	if err := r.alive(ctx); err != nil {
		return err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	dir = filepath.Clean(dir)
	old := r.world.runs[dir]
	if old == nil {
		r.world.runs[dir] = &fakeRun{world: r.world, state: supervise.Prepared, changed: make(chan struct{})}
		return nil
	}
	if old.state != supervise.Prepared {
		return fmt.Errorf("prepare %s: %w: it is %s", dir, supervise.Spent, old.state)
	}
	return nil
}

// Start implements supervise.Runner.
func (r *Runner) Start(ctx context.Context, dir string, c supervise.Command) (supervise.Run, error) {
	if err := errors.Join(r.alive(ctx), c.Check()); err != nil {
		return nil, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	dir = filepath.Clean(dir)
	run := r.world.runs[dir]
	switch {
	case run == nil:
		return nil, fmt.Errorf("start %s: the run directory was not prepared", dir)
	case run.state == supervise.Revoked:
		return nil, fmt.Errorf("start %s: %w: the ticket was revoked", dir, supervise.NotStarted)
	case run.state != supervise.Prepared:
		return nil, fmt.Errorf("start %s: %w", dir, supervise.Spent)
	}
	r.world.lastPID += 2
	run.start(r.world.lastPID, c)
	return &handle{runner: r, run: run}, nil
}

// Find implements supervise.Runner.
func (r *Runner) Find(ctx context.Context, dir string) (supervise.Remains, supervise.Run, error) {
	if err := r.alive(ctx); err != nil {
		return 0, nil, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	run := r.world.runs[filepath.Clean(dir)]
	if run != nil && run.state == supervise.Prepared {
		run.state = supervise.Revoked
	}
	remains, h := r.look(run)
	return remains, h, nil
}

// Remove implements supervise.Runner.
func (r *Runner) Remove(ctx context.Context, dir string) error {
	remains, _, err := r.Find(ctx, dir)
	switch {
	case err != nil:
		return err
	case remains == supervise.Alive:
		return fmt.Errorf("remove %s: %w", dir, supervise.Running)
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	delete(r.world.runs, filepath.Clean(dir))
	return nil
}

// List implements supervise.Runner.
func (r *Runner) List(ctx context.Context, root string) ([]supervise.Found, error) {
	if err := r.alive(ctx); err != nil {
		return nil, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	root = strings.TrimSuffix(filepath.Clean(root), "/") + "/"
	var all []supervise.Found
	for dir, run := range r.world.runs {
		if strings.HasPrefix(dir, root) {
			f := supervise.Found{Dir: dir}
			f.Remains, f.Run = r.look(run)
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b supervise.Found) int { return strings.Compare(a.Dir, b.Dir) })
	return all, nil
}

// Inspect implements supervise.Runner. Each run is one process.
func (r *Runner) Inspect(ctx context.Context, dir string) (supervise.Inspection, error) {
	if err := r.alive(ctx); err != nil {
		return supervise.Inspection{}, err
	}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	dir = filepath.Clean(dir)
	run := r.world.runs[dir]
	var found supervise.Inspection
	if found.Remains, _ = r.look(run); run == nil || run.state != supervise.Alive {
		return found, nil
	}
	found.Record, found.Exit = run.record, run.exit
	if run.outputBytes > 0 {
		found.Files = []supervise.OutputFile{{Path: filepath.Join(dir, "output"), Bytes: run.outputBytes}}
	}
	if run.isRunning() {
		found.Count = 1
		found.Tree = []supervise.TreeProcess{{PID: run.record.CommandPID, Parent: run.record.PID, Group: run.record.CommandPID,
			State: 'S', Threads: 1, StartedAt: run.began, CommandLine: strings.Join(run.command.Argv, " "), Dir: run.command.Dir}}
	}
	return found, nil
}

// look is called with world.mu held.
func (r *Runner) look(run *fakeRun) (supervise.Remains, supervise.Run) {
	switch {
	case run == nil:
		return supervise.Absent, nil
	case run.state != supervise.Alive:
		return run.state, nil
	case run.exit != nil:
		return supervise.Ended, &handle{runner: r, run: run}
	case run.supervisorKilled:
		return supervise.Gone, nil
	}
	return supervise.Alive, &handle{runner: r, run: run}
}

// handle is the Run of one runtime.
type handle struct {
	runner *Runner
	run    *fakeRun
}

func (h *handle) Record() supervise.Record { return h.run.record }

func (h *handle) Follow(ctx context.Context, from int64, emit func(supervise.Chunk) error) (supervise.Exit, error) {
	if from < 0 {
		return supervise.Exit{}, fmt.Errorf("follow: negative offset %d", from)
	}
	begin := from
	for {
		s := h.run.snapshot(from)
		for _, c := range s.chunks {
			if err := h.runner.alive(ctx); err != nil {
				return supervise.Exit{}, err
			}
			if err := emit(c); err != nil {
				return supervise.Exit{}, err
			}
			from = c.Offset + int64(len(c.Bytes))
		}
		if s.exit != nil && begin > s.exit.OutputBytes {
			return supervise.Exit{}, fmt.Errorf("follow from offset %d: the output has only %d bytes", begin, s.exit.OutputBytes)
		}
		if s.exit != nil {
			return *s.exit, nil
		}
		if s.gone {
			return supervise.Exit{}, supervise.Vanished
		}
		if err := h.wait(ctx, s.changed); err != nil {
			return supervise.Exit{}, err
		}
	}
}

func (h *handle) Stop(ctx context.Context, grace time.Duration) error {
	if err := h.runner.alive(ctx); err != nil {
		return err
	}
	h.run.requestStop(grace)
	for {
		s := h.run.snapshot(0)
		if s.exit != nil {
			return nil
		}
		if s.gone {
			return supervise.Vanished
		}
		if err := h.wait(ctx, s.changed); err != nil {
			return err
		}
	}
}

// wait returns when the run has changed, or the error that ends the wait.
func (h *handle) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-h.runner.dead:
		return Dead
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
