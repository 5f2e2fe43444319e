package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"
)

// experiment is a measurement that can run alone. It writes one figure or several, first with
// SQLite and then with Postgres, where the names of its figures end with _postgres.
type experiment struct {
	name string
	run  func(ctx context.Context, l *runner) error
}

// experiments returns all experiments, in the order of the table.
func experiments() []experiment {
	return []experiment{
		{"disk", measureDisk},
		{"calls", measureCalls},
		{"sequential", measureSequential},
		{"turn", measureTurn},
		{"tasks", measureTasks},
		{"supervised", measureSupervised},
		{"lanes", measureLanes},
		{"trees", measureTrees},
		{"watcher", measureWatcher},
		{"recovery", measureRecovery},
		{"standby", measureStandby},
		{"journal", measureJournal},
		{"sessions", measureSessions},
		{"parked", measureParked}, // takes longest
		{"waiting", measureWaiting},
		{"secrets", measureSecrets},
		{"grep", measureGrep},
		{"listing", measureListing},
	}
}

func experimentNames() []string {
	var names []string
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	return names
}

// choose returns the experiments of a list of names; an empty list means all.
func choose(only string) ([]experiment, error) {
	all := experiments()
	if only == "" {
		return all, nil
	}
	byName := map[string]experiment{}
	for _, e := range all {
		byName[e.name] = e
	}
	var chosen []experiment
	for _, name := range strings.Split(only, ",") {
		e, ok := byName[strings.TrimSpace(name)]
		if !ok {
			return nil, fmt.Errorf("unknown measurement %q: choose from %s", name,
				strings.Join(experimentNames(), ", "))
		}
		chosen = append(chosen, e)
	}
	return chosen, nil
}

// runner is the state that the experiments share.
type runner struct {
	options
	root     string // a folder of this run, on the measured disk
	report   *Report
	progress io.Writer
	began    time.Time
	folders  int
	server   server
	bare     atomic.Int64 // numbers the callers of floors, whose rows must differ
}

func newLab(ctx context.Context, o options, progress io.Writer) (*runner, error) {
	root, err := os.MkdirTemp(o.dir, "perdure-bench-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the measurements: %w", err)
	}
	l := &runner{options: o, root: root, progress: progress, began: time.Now()}
	machine, err := l.machine(ctx)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	l.report = newReport(machine)
	return l, nil
}

func (l *runner) close() {
	l.progressf("end")
	if err := l.server.close(); err != nil {
		l.progressf("stop the server: %v", err)
	}
	if err := os.RemoveAll(l.root); err != nil {
		l.progressf("remove the folder %s: %v", l.root, err)
	}
}

// progressf prints the progress of the run.
func (l *runner) progressf(format string, args ...any) {
	fmt.Fprintf(l.progress, "bench: %5.1fs %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

// folder creates a new empty folder.
func (l *runner) folder(name string) (string, error) {
	l.folders++
	dir := filepath.Join(l.root, fmt.Sprintf("%s-%d", name, l.folders))
	return dir, os.Mkdir(dir, 0o700)
}

// databaseURL creates a new folder and, for Postgres, a new database.
func (l *runner) databaseURL(ctx context.Context, name string) (cfg engineRigConfig, err error) {
	if cfg.Dir, err = l.folder(name); err == nil && l.onPostgres() {
		cfg.URL, err = l.server.database(ctx)
	}
	return cfg, err
}

// world opens a world in a new place.
func (l *runner) world(ctx context.Context, cfg engineRigConfig) (*engineRig, error) {
	at, err := l.databaseURL(ctx, "data")
	if err != nil {
		return nil, err
	}
	cfg.Dir, cfg.URL = at.Dir, at.URL
	return openEngineRig(ctx, cfg)
}

// floor opens a floor in a new folder or database.
func (l *runner) floor(ctx context.Context) (floor, error) {
	if l.onPostgres() {
		return l.server.floor(ctx)
	}
	dir, err := l.folder("floor")
	if err != nil {
		return nil, err
	}
	return openFloor(ctx, dir)
}

// count returns the number of iterations: few in a quick run.
func (l *runner) count(full, quick int) int {
	if l.quick {
		return quick
	}
	return full
}

// run runs one experiment with each store.
func (l *runner) run(ctx context.Context, e experiment) error {
	if err := l.runOver(ctx, e, ""); err != nil || !l.startServer(ctx) {
		return err
	}
	err := l.runOver(ctx, e, onPostgres)
	if err == nil && l.quick {
		err = l.server.dropDatabase(ctx)
	}
	return err
}

// runOver runs one experiment with one store, with profiles if requested.
func (l *runner) runOver(ctx context.Context, e experiment, ending string) error {
	l.report.ending = ending
	defer func() { l.report.ending = "" }()
	l.progressf("%s", e.name+ending)
	stop, err := startProfiles(l.profile, e.name+ending)
	if err != nil {
		return err
	}
	return errors.Join(e.run(ctx, l), stop())
}

// startProfiles starts the CPU profile of an experiment; stop ends it and also writes the profiles
// of mutexes, blocking and allocations. Without a folder it does nothing. The latter three
// accumulate over the experiments of a run: use -only.
func startProfiles(dir, name string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder for profiles: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, name+".cpu.pprof"))
	if err != nil {
		return nil, fmt.Errorf("start a profile: %w", err)
	}
	runtime.SetMutexProfileFraction(10)
	runtime.SetBlockProfileRate(100_000) // nanoseconds of blocking per sample
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start a profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		errs := []error{f.Close()}
		for _, kind := range []string{"mutex", "block", "allocs"} {
			errs = append(errs, writeProfile(filepath.Join(dir, name+"."+kind+".pprof"), kind))
		}
		return errors.Join(errs...)
	}, nil
}

func writeProfile(path, kind string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
}
