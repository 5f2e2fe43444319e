package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/store"
)

// startTime is how long a process may take to start.
const startTime = time.Minute

// lab is everything that a run starts.
type lab struct {
	options  options
	progress io.Writer
	folder   string
	server   *child
	address  string // of the Temporal server
	cluster  *pgserver.Cluster
	database string
	engine   *running // of this process: it asks, and does no work of sessions
	stop     context.CancelFunc
	ended    chan error // capacity 1: the result of the engine
	workers  []*child
	lines    chan string // what the workers print
}

// child is a process that ends with this one.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
}

// openLab starts the servers, the engine of this process and two workers.
func openLab(ctx context.Context, o options, progress io.Writer) (_ *lab, err error) {
	l := &lab{options: o, progress: progress, ended: make(chan error, 1), lines: make(chan string, 1000)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.folder, err = os.MkdirTemp("", "perdure-bench-"); err != nil {
		return nil, fmt.Errorf("create a folder: %w", err)
	}
	if err := l.startTemporal(ctx, "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if l.cluster, err = pgserver.NewCluster(pgserver.Config{Fsync: true}); err != nil {
		return nil, err
	}
	if l.database, err = l.cluster.Database(ctx, nil); err != nil {
		return nil, err
	}
	if l.engine, err = openEngine(ctx, l.address, l.database); err != nil {
		return nil, err
	}
	var engine context.Context
	engine, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { l.ended <- l.engine.Run(engine) }()
	<-l.engine.Started()
	for range 2 {
		if err := l.addWorker(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// startTemporal starts the Temporal server, with the data of an earlier one if there was one.
func (l *lab) startTemporal(ctx context.Context, address string) error {
	cmd := exec.Command(l.options.server, "-address", address, "-data", filepath.Join(l.folder, "temporal.db"), "-log", "fatal")
	server, line, err := l.start(ctx, cmd, false)
	if err != nil {
		return fmt.Errorf("start Temporal: %w", err)
	}
	l.server = server
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "ready" {
		return fmt.Errorf("start Temporal: it says %q", line)
	}
	l.address = words[1]
	return nil
}

// addWorker starts a process that works.
func (l *lab) addWorker(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerVariable+"=1", addressVariable+"="+l.address, databaseVariable+"="+l.database)
	one, line, err := l.start(ctx, cmd, true)
	if err == nil && line != "ready" {
		err = fmt.Errorf("it says %q", line)
	}
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	l.workers = append(l.workers, one)
	return nil
}

// start starts a process and returns its first line. With keep, the further ones go to l.lines.
func (l *lab) start(ctx context.Context, cmd *exec.Cmd, keep bool) (*child, string, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	cmd.Stderr = l.progress
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	c := &child{cmd, in}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			first <- lines.Text()
		}
		for lines.Scan() {
			if keep {
				l.lines <- lines.Text()
			}
		}
	}()
	select {
	case line := <-first:
		return c, line, nil
	case <-time.After(startTime):
		err = fmt.Errorf("it printed nothing for %s", startTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.kill()
	return nil, "", err
}

func (c *child) kill() {
	if c == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()         // likewise
	_ = c.in.Close()         // likewise
}

// end lets the process end by itself.
func (c *child) end() {
	_ = c.in.Close() // it may have ended
	_ = c.cmd.Wait() // likewise
}

// close ends everything that was started.
func (l *lab) close() error {
	var errs []error
	for _, w := range l.workers {
		w.kill()
	}
	if l.stop != nil {
		l.stop()
		errs = append(errs, <-l.ended)
	}
	if l.engine != nil {
		errs = append(errs, l.engine.close())
	}
	if l.cluster != nil {
		errs = append(errs, l.cluster.Close())
	}
	l.server.kill()
	if l.folder != "" {
		errs = append(errs, os.RemoveAll(l.folder))
	}
	return errors.Join(errs...)
}

// workerAt returns the worker's process that runs a task; nil: none of ours.
func (l *lab) workerAt(ctx context.Context, task store.Work) (*child, error) {
	row, err := store.Read(ctx, l.engine.store, func(r store.Reader) (store.Worker, error) {
		t, err := r.Tasks().Get(task.Session, task.Task)
		if err != nil {
			return store.Worker{}, err
		}
		return r.Workers().Get(t.Worker)
	})
	if err != nil {
		return nil, err
	}
	for _, w := range l.workers {
		if w.cmd.Process.Pid == row.PID {
			return w, nil
		}
	}
	return nil, nil
}
