package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/dev"
)

// The times of a server for developers.
const (
	devLook   = 300 * time.Millisecond // between two looks at the files
	devClear  = 3 * time.Second        // how long the tasks of a scratch directory may take to end
	devRemove = 10 * time.Second       // how long it may take to remove what killed processes left
	devStop   = 2 * time.Second        // how long a stop waits for calls; commands survive it anyway
)

// defaultAddr is the address of a server that nobody has chosen one for.
const defaultAddr = "127.0.0.1:7373"

// devServer is the server of perdure dev, which starts again when its files have changed. A change
// is what a crash would be, so the work continues.
type devServer struct {
	*devCommand
	a       *app
	options ServeOptions
	scratch *dev.Scratch // nil: the user chose the directory
	tour    []dev.Piece  // nil: there is none
	addr    string       // empty: the default
	build   int          // number of the tool program's builds
	begun   bool         // the server has started once
}

// run serves until ctx ends.
func (d *devServer) run(ctx context.Context) error {
	for {
		changed, err := d.serve(ctx)
		if err != nil || changed == "" {
			return err
		}
		if err := d.writeProgram(); err != nil {
			return err
		}
	}
}

// serve runs the server until ctx ends, or until a file has changed that it must be started again
// for, which it returns.
func (d *devServer) serve(ctx context.Context) (changed string, err error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // tasks are canceled before it ends
	defer stop()
	options, ready, served := d.options, make(chan ServerInfo, 1), make(chan error, 1) // capacity 1: one of each
	options.Addr, options.Ready = d.addr, func(info ServerInfo) { ready <- info }
	if options.Addr == "" {
		options.Addr = defaultAddr
	}
	go func() { served <- d.a.Serve(work, options) }()
	end := func() error {
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	select {
	case info := <-ready:
		if err := d.started(ctx, info); err != nil {
			return "", errors.Join(err, end())
		}
	case err := <-served:
		if d.addr == "" && addressInUse(err) {
			d.addr = "127.0.0.1:0"
			return d.serve(ctx)
		}
		return "", addressError(err, options.Addr)
	}
	err = d.a.with(work, OpenOptions{Access: Writing}, func(eng Engine) error {
		changed, err = d.follow(ctx, work, eng, served)
		return err
	})
	if errors.Is(err, errServed) {
		return "", fmt.Errorf("the server ended: %w", <-served)
	}
	return changed, errors.Join(err, end())
}

// errServed reports that the server ended by itself.
var errServed = errors.New("served")

// addressInUse reports whether a server could not listen on its address.
func addressInUse(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "listen"
}

// started notes the address, and prints how the server is reached when it has started for the first
// time.
func (d *devServer) started(ctx context.Context, info ServerInfo) error {
	if u, err := url.Parse(info.URL); err == nil {
		d.addr = u.Host
	}
	if d.begun {
		return nil
	}
	d.begun = true
	a := d.a
	fmt.Fprintln(a.out, a.text(info.UILink))
	kept := "it is kept"
	if d.scratch != nil && !d.Keep {
		kept = "it is removed at the end; --keep keeps it, and --data DIR names another one"
	}
	a.message("data      %s: %s", a.oneLine(a.flags.Data, 300), kept)
	a.message("link      signs one browser in, within ten minutes; another one: %s ui --data %s", program, quote(a.flags.Data))
	if len(d.Command) > 0 {
		a.message("tools     of %s: agents have them by the capability mcp_%s", a.oneLine(strings.Join(d.Command, " "), 200), devServerName)
	}
	a.message("%s", "Ctrl-C stops it")
	if d.NoOpen || a.flags.NoInput || !a.Terminal.Stdout || a.OpenBrowser == nil {
		return nil
	}
	if err := a.OpenBrowser(ctx, a.flags.Data, info.UILink); err != nil {
		a.message("no browser was opened: open the link yourself")
	}
	return nil
}

// follow applies the agents, begins the tour, and looks at the files until ctx ends or the server
// must start again.
func (d *devServer) follow(ctx, work context.Context, eng Engine, served chan error) (changed string, err error) {
	var watch dev.Watch
	restarts := d.restartPaths()
	watch.Add(slices.Concat(d.Agent, restarts)...)
	d.applyAll(work, eng, d.Agent)
	if err := d.beginTour(work, eng); err != nil {
		return "", err
	}
	tick := time.NewTicker(devLook)
	defer tick.Stop()
	waits := false
	for {
		select {
		case <-ctx.Done():
			return "", d.clear(work, eng)
		case err := <-served:
			served <- err // capacity 1, and it was just received
			return "", errServed
		case <-tick.C:
		}
		for _, name := range watch.Changed() {
			if slices.Contains(d.Agent, name) {
				d.applyAll(work, eng, []string{name})
				restarts = append(restarts, d.restartPaths()...) // it may name another script
				watch.Add(restarts...)
			}
			if slices.Contains(restarts, name) {
				changed = name
			}
		}
		if changed == "" {
			continue
		}
		running, err := d.running(work, eng)
		if err == nil && running == 0 {
			d.a.message("%s has changed: the server starts again, and its work continues", d.a.oneLine(changed, 300))
		}
		if err != nil || running == 0 {
			return changed, err
		}
		if !waits {
			d.a.message("%s has changed: %s of the tool program first, because a call that is cut off may have taken effect",
				d.a.oneLine(changed, 300), waitingFor(running))
			waits = true
		}
	}
}

func waitingFor(calls int) string {
	if calls == 1 {
		return "waiting for a running call"
	}
	return fmt.Sprintf("waiting for %d running calls", calls)
}

// restartPaths returns the files and folders for whose changes the server starts again: the tool
// program, scripts of models, and mcp.json where it is the user's.
func (d *devServer) restartPaths() []string {
	paths := slices.Concat(d.Watch, dev.ProgramPaths(d.Command))
	if len(d.Command) == 0 {
		paths = append(paths, filepath.Join(d.a.flags.Data, "mcp.json"))
	}
	if script := scriptOf(d.Model); script != "" {
		paths = append(paths, script)
	}
	for _, file := range d.Agent {
		if _, script, err := d.readAgent(file); err == nil && script != "" {
			paths = append(paths, script)
		}
	}
	return paths
}

// applyAll applies agent files. A file with a fault leaves the agent as it was.
func (d *devServer) applyAll(ctx context.Context, eng Engine, files []string) {
	for _, file := range files {
		if err := d.apply(ctx, eng, file); err != nil {
			d.a.message("%s is not applied: %s", d.a.oneLine(file, 300), d.a.oneLine(err.Error(), 500))
		}
	}
}

// running counts the calls of the tool program that are running, in all sessions.
func (d *devServer) running(ctx context.Context, eng Engine) (count int, err error) {
	if len(d.Command) == 0 {
		return 0, nil
	}
	all, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.Status != perdure.SessionActive && s.OpenTasks == 0 {
			continue
		}
		calls, err := eng.Calls().List(ctx, s.ID)
		if err != nil {
			return 0, err
		}
		for _, call := range calls {
			if call.State == perdure.CallRunning && strings.HasPrefix(call.Tool, devServerName+"__") {
				count++
			}
		}
	}
	return count, nil
}

// beginTour starts the sessions of the tour, once.
func (d *devServer) beginTour(ctx context.Context, eng Engine) error {
	pieces := d.tour
	d.tour = nil
	for _, piece := range pieces {
		s, err := eng.Sessions().CreateFromAgent(ctx, engine.AgentSessionRequest{Agent: dev.Agent, Title: piece.Title})
		if err != nil {
			return err
		}
		if _, err := eng.Send(ctx, s.ID, perdure.Text(piece.Message)); err != nil {
			return err
		}
	}
	return nil
}

// clear ends the work of a directory that is about to be removed, because its commands would
// survive the server.
func (d *devServer) clear(ctx context.Context, eng Engine) error {
	if d.scratch == nil || d.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, devClear)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for asked := map[string]bool{}; ; {
		open, err := endWork(ctx, eng, asked)
		if err != nil || open == 0 {
			return nil // an error means that the time is up
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// endWork interrupts the turns that are running, and cancels the tasks, each once. It returns how
// many have not ended.
func endWork(ctx context.Context, eng Engine, asked map[string]bool) (open int, err error) {
	const by, why = "operator", "perdure dev ends"
	sessions, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return 0, err
	}
	for _, s := range sessions {
		if s.Status != perdure.SessionActive {
			continue
		}
		if open++; !asked[string(s.ID)] {
			asked[string(s.ID)] = true
			_ = eng.Sessions().Interrupt(ctx, s.ID, by, why) // its turn may have ended
		}
	}
	tasks, err := eng.Tasks().List(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		if task.State.Terminal() {
			continue
		}
		if open++; !asked[string(task.ID)] {
			asked[string(task.ID)] = true
			_, _ = eng.Tasks().Cancel(ctx, task.ID, by, why) // it may have ended
		}
	}
	return open, nil
}
