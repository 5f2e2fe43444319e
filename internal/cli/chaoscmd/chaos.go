// Package chaoscmd implements "perdure chaos": it kills, pauses and stops a server while many
// sessions run, and then checks the guarantees.
//
// It may import the root, engine and internal/chaos. The one thing to know: it never uses a data
// directory that it did not create, and it resolves nothing: unknown outcomes are counted, and are
// not violations.
package chaoscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// Run is one run.
type Run struct {
	Kills        int
	Seed         int64
	Sessions     int      // concurrent sessions
	Faults       []string // kill, stop, term, disk, away
	Agent        string   // script of the model; empty: the built-in one
	Tools        []string // tools to call; empty: a mix of all tools
	EffectsFrom  string   // shell command that lists effects; empty: none
	Command      []string // command that starts the server under test; empty: this program
	Store        string   // sqlite or postgres; empty: postgres with a Database, else sqlite
	Database     string   // URL of an empty Postgres database; empty with Store postgres: a temporary one is started
	SecondServer bool     // a second server without faults works on the same database; this program's own server only
	Dir          string   // working directory; empty: a temporary folder
	Keep, JSON   bool
	Sabotage     string // for tests
	Out, Stderr  io.Writer

	Program string // path of this program, to start its parts
	// Dial connects to a server. With once, nothing is retried.
	Dial func(addr, token string, once bool) (engine.Engine, error)
	// Addr returns an address that nobody listens on.
	Addr func() (string, error)
}

// The stores of a server.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// errBroken reports a violated guarantee.
var errBroken = errors.New("chaos found a violated guarantee")

// CheckFlags checks the settings and returns what is wrong, and what to do; empty: nothing is
// wrong.
func (s Run) CheckFlags() (what, todo string) {
	if s.Kills < 1 || s.Sessions < 1 {
		return "--kills or --sessions is less than 1", "give 1 or more"
	}
	for _, fault := range s.Faults {
		if !slices.Contains(chaos.Faults(), chaos.Fault(fault)) {
			return fmt.Sprintf("unknown fault %q", fault), "the faults are kill, stop, term, disk and away"
		}
	}
	if slices.Contains(s.Faults, string(chaos.Disk)) {
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
	if s.SecondServer && (s.Store != postgres && s.Database == "" || len(s.Command) > 0) {
		return "--rival works only with this program's own server on Postgres", "use --store postgres, and no command"
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
	line := fmt.Sprintf("perdure chaos --kills %d --sessions %d --seed %d --faults %s", s.Kills, s.Sessions, s.Seed,
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
	if s.SecondServer {
		line += " --rival"
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
	for _, folder := range []string{"data", "work"} {
		if err == nil { // without an own folder, these would be created in another one
			err = os.Mkdir(filepath.Join(p.dir, folder), 0o700)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create a folder: %w", err)
	}
	if p.addr, err = s.Addr(); err != nil {
		return nil, err
	}
	return p, p.makeToken()
}
