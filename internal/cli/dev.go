package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/dev"
)

// devServerName is the name of the tool program among the MCP servers of the data directory. Its
// tools are dev__NAME, and belong to the capability mcp_dev.
const devServerName = "dev"

type devCommand struct {
	Addr   string   `help:"Address to listen on. Default: 127.0.0.1:7373, or a free port if that is in use." placeholder:"HOST:PORT"`
	Agent  []string `help:"Apply this agent file (see perdure agent apply), and again whenever it changes. Repeatable." placeholder:"FILE" type:"path"`
	Watch  []string `help:"Restart the server when this file or folder changes, in addition to the files that the command names. Repeatable." placeholder:"PATH" type:"path"`
	Model  string   `help:"Model of sessions that name none." placeholder:"MODEL"`
	Keep   bool     `help:"Keep the scratch directory afterwards. A directory of --data is always kept."`
	NoOpen bool     `name:"no-open" help:"Only print the link, and open no browser."`
	sandboxFlags
	Command []string `arg:"" optional:"" passthrough:"" help:"Tool program: command of an MCP server on stdio with its arguments, after --. Agents have its tools by the capability mcp_dev."`
}

// Run serves until Ctrl-C, and starts the server again when its files have changed.
func (c *devCommand) Run(ctx context.Context, a *app) error {
	if a.typed["database"] || a.typed["server"] {
		return usageError("dev works on a directory of its own", "remove --database and --server; --data names a directory to keep")
	}
	if err := checkLoopback(c.Addr); err != nil {
		return err
	}
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	sandbox, err := a.sandbox(c.sandbox())
	if err != nil {
		return err
	}
	d := &devServer{devCommand: c, a: a, addr: c.Addr, options: ServeOptions{
		Model: c.Model, Sandbox: sandbox, Disclosure: "detailed", Retention: a.retention(""), Limits: a.flags.Limits,
		ModelOptions: a.flags.ModelOption, StopTime: min(a.flags.StopTimeout, devStop), Log: a.log,
	}}
	if err := d.prepare(ctx); err != nil {
		return errors.Join(err, d.remove())
	}
	a.stopCode.Store(exitOK) // Ctrl-C is the normal end
	err = d.run(ctx)
	if err == nil || d.scratch != nil {
		err = errors.Join(err, d.end())
	}
	if err == nil {
		return exit(exitOK)
	}
	return err
}

// prepare chooses the directory, and writes the files of the server into it.
func (d *devServer) prepare(ctx context.Context) (err error) {
	a := d.a
	// a store that the environment names is not meant
	a.flags.Database, a.flags.Server = "", ""
	if !a.typed["data"] {
		d.removeDead(ctx)
		if d.scratch, err = dev.NewScratch(os.TempDir(), d.Keep); err != nil {
			return fmt.Errorf("%w: create a scratch directory: %w", perdure.Unavailable, err)
		}
		a.flags.Data = d.scratch.Dir
	}
	d.options.Dir = a.flags.Data
	for _, file := range d.Agent {
		if _, _, err := d.readAgent(file); err != nil {
			return err
		}
	}
	own := filepath.Join(a.flags.Data, "dev", "agent.yaml")
	switch {
	case len(d.Agent) > 0:
	case exists(own): // of the tour, in a directory that was kept
		d.Agent = []string{own}
	case !exists(filepath.Join(a.flags.Data, "perdure.db")):
		if err := d.writeTour(); err != nil {
			return err
		}
	}
	return d.writeProgram()
}

// remove removes the scratch directory, unless the user keeps it.
func (d *devServer) remove() error {
	if d.scratch == nil || d.Keep {
		return nil
	}
	return d.scratch.Remove()
}

// removeDead removes the scratch directories of processes that were killed, and ends the commands
// that they left. A directory that cannot be removed now is left to the next start.
func (d *devServer) removeDead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, devRemove)
	defer cancel()
	for _, dead := range dev.DeadScratch(os.TempDir()) {
		if err := d.endCommands(ctx, dead.Dir); err != nil {
			d.a.log.Debug("scratch directory not removed", "dir", dead.Dir, "error", err)
			dead.Release()
			continue
		}
		if err := dead.Remove(); err == nil {
			d.a.message("removed %s, which a killed process left", d.a.oneLine(dead.Dir, 300))
		}
	}
}

// endCommands ends the commands that run in a data directory. Conflict: the directory is in use.
func (d *devServer) endCommands(ctx context.Context, dir string) error {
	if d.a.Servers == nil || d.a.Supervised == nil {
		return fmt.Errorf("%w: processes cannot be found here", perdure.Unavailable)
	}
	if _, err := d.a.Servers.Find(ctx, dir); !errors.Is(err, perdure.NotFound) {
		return errors.Join(fmt.Errorf("%w: %s is in use", perdure.Conflict, dir), err)
	}
	all, err := d.a.Supervised.Processes(ctx, OpenOptions{Access: Reading, Dir: dir})
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := d.a.Supervised.EndProcess(ctx, one); one.alive() && err != nil {
			return err
		}
	}
	return nil
}

// end says what became of the directory.
func (d *devServer) end() error {
	if err := d.remove(); err != nil {
		return err
	}
	if d.scratch != nil && !d.Keep {
		d.a.message("stopped, and removed %s; keep it next time with --keep", d.a.oneLine(d.a.flags.Data, 300))
		return nil
	}
	at := quote(d.a.flags.Data)
	d.a.message("stopped; continue with: %s dev --data %s, or %s serve --data %s", program, at, program, at)
	return nil
}

// writeTour writes the agent of the tour, which needs no key.
func (d *devServer) writeTour() error {
	folder := filepath.Join(d.a.flags.Data, "dev")
	work, script, agent := filepath.Join(folder, "work"), filepath.Join(folder, "tour.yaml"), filepath.Join(folder, "agent.yaml")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	for path, text := range map[string][]byte{script: dev.TourScript, agent: dev.TourAgent(script, work)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("%w: %w", perdure.Unavailable, err)
		}
	}
	d.Agent, d.tour = []string{agent}, dev.Tour()
	return nil
}

// writeProgram names the tool program in mcp.json of the directory. The user's own file is not
// changed. The number of the build is part of the entry, so that sessions start the program anew
// after a change.
func (d *devServer) writeProgram() error {
	if len(d.Command) == 0 {
		return nil
	}
	file := filepath.Join(d.a.flags.Data, "mcp.json")
	type server struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env"`
	}
	var found struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		Agents  json.RawMessage            `json:"agents"`
	}
	switch text, err := os.ReadFile(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	default:
		err = perdure.DecodeKnownJSON(text, &found)
		if _, own := found.Servers[devServerName]; err != nil || !own || len(found.Servers) > 1 || found.Agents != nil {
			return usageError(file+" is not a file of dev, so it is not changed",
				"name the program there, as an MCP server, and leave it out here; dev reloads that file, too")
		}
	}
	d.build++
	entry := server{d.Command[0], d.Command[1:], map[string]string{"PERDURE_DEV_BUILD": fmt.Sprintf("%d.%d", os.Getpid(), d.build)}}
	text, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{devServerName: entry}}, "", "  ")
	if err == nil {
		err = os.MkdirAll(d.a.flags.Data, 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	return nil
}

// readAgent reads an agent file. script is the file that answers in place of its model; empty:
// there is none.
func (d *devServer) readAgent(file string) (said agentFile, script string, err error) {
	err = readLayer(d.a, file, &said, func() (string, error) { return said.Name, said.Check() })
	if err == nil {
		script = scriptOf(said.Model)
	}
	return said, script, err
}

// scriptOf returns the file of a scripted model; empty: the model is another one.
func scriptOf(model string) string {
	script, ok := strings.CutPrefix(model, "scripted:")
	if !ok {
		return ""
	}
	return script
}

// apply stores the agent of a file. A session has the configuration with which it started (N9), so
// only sessions that start afterwards have the change.
func (d *devServer) apply(ctx context.Context, eng Engine, file string) error {
	said, _, err := d.readAgent(file)
	if err != nil {
		return err
	}
	if said.HarnessID, err = standsOn(ctx, eng, said.HarnessID, said.Harness); err != nil {
		return err
	}
	old, err := eng.Agents().Get(ctx, said.Name)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	changes, err := said.changes(old)
	if err != nil || len(changes) == 0 && old.ID != "" {
		return err
	}
	one, err := eng.Agents().Put(ctx, engine.AgentWrite{Name: said.Name, Version: old.Version, Harness: said.HarnessID, Overlay: said.Overlay})
	if err != nil {
		return err
	}
	name := d.a.oneLine(one.Name, 300)
	if old.ID == "" {
		d.a.message("agent     %s, from %s: change the file, and sessions that start afterwards have the change", name, d.a.oneLine(file, 300))
	} else {
		d.a.message("agent %s is now version %d: sessions that start from now on have it; running ones keep what they started with", name, one.Version)
	}
	if _, err := eng.Agents().Effective(ctx, one.ID); err != nil {
		d.a.message("%s a session of this agent cannot start now: %s", d.a.colors.stderr.mark(dim, "note:"), d.a.oneLine(err.Error(), 300))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
