// Package storm is "perdure chaos": a server that is killed, paused and stopped while many sessions are in work, and
// the verdict on what it left behind.
//
// It may import the root, engine and internal/chaos. The one thing to know: it never touches a data directory that it
// has not made itself, and it resolves nothing: what is unknown is counted, and is no fault.
package storm

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

// Storm is one run.
type Storm struct {
	Kills       int
	Seed        int64
	Sessions    int      // at once
	Faults      []string // kill, stop, term, disk, away
	Agent       string   // a script instead of the built-in one; empty: none
	Tools       []string // that are called instead of the mix; empty: the mix
	EffectsFrom string   // a command of the shell that lists effects; empty: none
	Command     []string // the server instead of this program's own; empty: that one
	Store       string   // sqlite or postgres; empty: postgres with a Database, else sqlite
	Database    string   // of Postgres, empty, for the server; with Store postgres and none one is made
	Rival       bool     // a second server works on the same database, undisturbed; this program's own only
	Dir         string   // where it works; empty: a temporary folder
	Keep, JSON  bool
	Sabotage    string // for tests
	Out, Talk   io.Writer

	Program string // this program, to start its parts
	// Dial reaches a server. With once, nothing is tried again.
	Dial func(addr, token string, once bool) (engine.Engine, error)
	// Addr finds an address that nobody listens on.
	Addr func() (string, error)
}

// The stores of a server.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// errBroken is the verdict that something broke.
var errBroken = errors.New("chaos found a broken promise")

// Fault says what is wrong with the settings, and what to do about it; empty: nothing.
func (s Storm) Fault() (what, todo string) {
	if s.Kills < 1 || s.Sessions < 1 {
		return "--kills or --sessions is below one", "give 1 or more"
	}
	for _, fault := range s.Faults {
		if !slices.Contains(chaos.Disturbances(), chaos.Disturbance(fault)) {
			return fmt.Sprintf("there is no fault %q", fault), "the faults are kill, stop, term, disk and away"
		}
	}
	if slices.Contains(s.Faults, string(chaos.Disk)) {
		if reason := noDisk(); reason != "" {
			return "the fault disk is not possible here: " + reason, "leave it out of --faults"
		}
	}
	if slices.Contains(s.Faults, string(chaos.Away)) && (s.Store != postgres || s.Database != "") {
		return "the fault away kills the database, so that must be one of its own", "give --store postgres, and no --database"
	}
	if s.Store == sqlite && s.Database != "" {
		return "--store sqlite and --database exclude one another", "leave one of them out"
	}
	if s.Rival && (s.Store != postgres && s.Database == "" || len(s.Command) > 0) {
		return "--rival is for this program's own server over Postgres", "give --store postgres, and no command"
	}
	if s.Agent != "" && len(s.Tools) > 0 {
		return "--agent and --tools exclude one another", "the script of an agent says itself which tools it calls"
	}
	return "", ""
}

// Run makes the directory, disturbs the server, judges, and prints the verdict.
func (s Storm) Run(ctx context.Context) error {
	p, err := s.prepare()
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	fmt.Fprintf(s.Talk, "data in %s, seed %d\n", p.dir, s.Seed)
	end, err := p.openDatabase(ctx)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	report, err := p.run(ctx)
	end()
	if err != nil {
		return fmt.Errorf("chaos: %w; run it again with %s; its data and the server's words (server.log) are kept in %s", err, s.again(), p.dir)
	}
	if err := p.print(report); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w: run it again with %s; its data is kept in %s", errBroken, s.again(), p.dir)
	}
	if s.Keep {
		fmt.Fprintf(s.Talk, "the data is kept in %s\n", p.dir)
		return nil
	}
	return os.RemoveAll(p.dir)
}

// again is the command that does the same once more. The database's URL may hold a password, so it is not repeated.
func (s Storm) again() string {
	line := fmt.Sprintf("perdure chaos --kills %d --sessions %d --seed %d --faults %s", s.Kills, s.Sessions, s.Seed, strings.Join(s.Faults, ","))
	for _, flag := range []struct{ name, value string }{
		{"--agent", s.Agent}, {"--tools", strings.Join(s.Tools, ",")}, {"--effects-from", s.EffectsFrom}, {"--sabotage", s.Sabotage},
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
	if s.Rival {
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

// quote is a word of a shell.
func quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// prepare makes the directory of the run.
func (s Storm) prepare() (*place, error) {
	p := &place{Storm: s, dir: s.Dir}
	var err error
	if p.dir == "" {
		p.dir, err = os.MkdirTemp("", "perdure-chaos-")
	} else {
		err = os.Mkdir(p.dir, 0o700)
	}
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s is there already: name a folder that is not, with --dir", p.dir)
	}
	for _, folder := range []string{"data", "work"} {
		if err == nil { // without a folder of its own, these would be in somebody else's
			err = os.Mkdir(filepath.Join(p.dir, folder), 0o700)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if p.addr, err = s.Addr(); err != nil {
		return nil, err
	}
	return p, p.makeToken()
}
