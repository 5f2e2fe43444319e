// Package chaoscmd implements "perdure chaos": it kills, pauses and stops a server while many
// sessions run, and then checks the guarantees.
//
// It may import the root, engine and internal/chaos. The one thing to know: it never uses a data
// directory that it did not create, and it resolves nothing: unknown outcomes are counted, and are
// not violations.
package chaoscmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// Run is one run.
type Run struct {
	Kills       int
	Seed        int64
	Sessions    int           // concurrent sessions
	Faults      []string      // kill, stop, term, disk, away, cut, wipe
	Outage      time.Duration // of the outside scheduler, instead of Faults; 0: none
	Agent       string        // script of the model; empty: the built-in one
	Tools       []string      // tools to call; empty: a mix of all tools
	EffectsFrom string        // shell command that lists effects; empty: none
	Command     []string      // command that starts the server under test; empty: this program
	Store       string        // sqlite or postgres; empty: postgres with a Database, else sqlite
	Database    string        // URL of an empty Postgres database; empty with Store postgres: a temporary one is started
	Workers     int           // servers on the same database
	Dir         string        // working directory; empty: a temporary folder
	Keep, JSON  bool
	Sabotage    string // for tests
	Out, Stderr io.Writer

	Program string // path of this program, to start its parts
	// OpenScheduler opens the connection of the servers to the outside scheduler. nil: they
	// schedule their work themselves
	OpenScheduler func() (Scheduler, error)
	// Dial connects to a server. With once, nothing is retried.
	Dial func(addr, token string, once bool) (engine.Engine, error)
	// Addr returns an address that nobody listens on.
	Addr func() (string, error)
}

// Scheduler is the outside scheduler of the servers, as far as faults need it.
type Scheduler interface {
	// Environ returns the variables with which a server uses it.
	Environ() []string
	// Cut makes it unreachable for the servers.
	Cut() error
	// Restore makes it reachable again.
	Restore() error
	// Wipe deletes everything that it knows of the servers' work.
	Wipe() error
	// Close deletes what it knows of the run, and ends its connections.
	Close() error
}

// The stores of a server.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// maxWorkers bounds the servers of a run: each needs a process and connections to the database.
const maxWorkers = 20

// errBroken reports a violated guarantee.
var errBroken = errors.New("chaos found a violated guarantee")

// CheckFlags checks the settings and returns what is wrong, and what to do; empty: nothing is
// wrong.
func (s Run) CheckFlags() (what, todo string) {
	if s.Kills < 1 || s.Sessions < 1 {
		return "--kills or --sessions is less than 1", "give 1 or more"
	}
	if s.Workers < 1 || s.Workers > maxWorkers {
		return fmt.Sprintf("--workers is not between 1 and %d", maxWorkers), "give a number between them"
	}
	for _, fault := range s.Faults {
		if !slices.Contains(chaos.Faults(), chaos.Fault(fault)) {
			return fmt.Sprintf("unknown fault %q", fault), "the faults are kill, stop, term, disk, away, cut and wipe"
		}
	}
	if slices.Contains(s.Faults, string(chaos.Disk)) {
		if s.Workers > 1 {
			return "the fault disk fills the disk of one data directory, so it needs one server", "remove it from --faults, or remove --workers"
		}
		if reason := mountError(); reason != "" {
			return "the fault disk is not possible here: " + reason, "remove it from --faults"
		}
	}
	if slices.Contains(s.Faults, string(chaos.Away)) && (s.Store != postgres || s.Database != "") {
		return "the fault away kills the database, so it needs a temporary one",
			"use --store postgres without --database"
	}
	if s.Store == sqlite && s.Database != "" {
		return "--store sqlite and --database cannot be used together", "remove one of them"
	}
	if s.Workers > 1 && s.Store != postgres && s.Database == "" {
		return "several servers work only on one Postgres database", "use --store postgres"
	}
	if s.OpenScheduler == nil && (s.Outage > 0 || slices.Contains(s.Faults, string(chaos.Cut)) || slices.Contains(s.Faults, string(chaos.Wipe))) {
		return "these servers schedule their work themselves, so there is no scheduler to cut off", "remove cut, wipe and --outage, or use perdure-temporal"
	}
	if s.Agent != "" && len(s.Tools) > 0 {
		return "--agent and --tools cannot be used together", "the script of --agent determines the tools"
	}
	return "", ""
}

// Run creates the directory, runs the server with faults, and prints the report.
func (s Run) Run(ctx context.Context) error {
	p, err := s.prepare()
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	fmt.Fprintf(s.Stderr, "data in %s, seed %d\n", p.dir, s.Seed)
	end, err := p.openDatabase(ctx)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	report, err := p.run(ctx)
	end()
	if err != nil {
		return fmt.Errorf("chaos: %w; repeat it with: %s; its data and the log of the server (server.log) are kept in %s", err, s.repeatCommand(), p.dir)
	}
	if err := p.print(report); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w; repeat it with: %s; its data is kept in %s", errBroken, s.repeatCommand(), p.dir)
	}
	if s.Keep {
		fmt.Fprintf(s.Stderr, "the data is kept in %s\n", p.dir)
		return nil
	}
	return os.RemoveAll(p.dir)
}

// repeatCommand returns the command that repeats the run. The URL of the database may contain a
// password, so it is left out.
func (s Run) repeatCommand() string {
	line := fmt.Sprintf("%s chaos --kills %d --sessions %d --seed %d --faults %s", filepath.Base(s.Program), s.Kills, s.Sessions, s.Seed,
		strings.Join(s.Faults, ","))
	for _, flag := range []struct{ name, value string }{
		{"--agent", s.Agent}, {"--tools", strings.Join(s.Tools, ",")}, {"--effects-from", s.EffectsFrom},
		{"--sabotage", s.Sabotage},
	} {
		if flag.value != "" {
			line += " " + flag.name + " " + quote(flag.value)
		}
	}
	switch {
	case s.Database != "":
		line += " --database URL"
	case s.Store != "":
		line += " --store " + s.Store
	}
	if s.Workers > 1 {
		line += fmt.Sprintf(" --workers %d", s.Workers)
	}
	if s.Outage > 0 {
		line += " --outage " + s.Outage.String()
	}
	if len(s.Command) > 0 {
		line += " --"
	}
	for _, word := range s.Command {
		line += " " + quote(word)
	}
	return line
}

// quote quotes a word for a shell.
func quote(word string) string {
	if word != "" && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// prepare creates the directory of the run.
func (s Run) prepare() (*runDir, error) {
	p := &runDir{Run: s, dir: s.Dir}
	var err error
	if p.dir == "" {
		p.dir, err = os.MkdirTemp("", "perdure-chaos-")
	} else {
		err = os.Mkdir(p.dir, 0o700)
	}
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s already exists: choose a new folder with --dir", p.dir)
	}
	if err == nil { // without an own folder, this would be created in another one
		err = os.Mkdir(p.path("work"), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("create a folder: %w", err)
	}
	p.token = "perdure_" + strings.ToLower(rand.Text()+rand.Text())
	for n := range s.Workers {
		one, err := p.newServer(n)
		if err != nil {
			return nil, err
		}
		p.servers = append(p.servers, one)
	}
	return p, nil
}
