package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/perdure/perdure/internal/cli/demo"
)

type demoCommand struct {
	Crash     demoCrash     `cmd:"" help:"Kill a working runtime again and again, and count what was lost or repeated."`
	Agents    demoAgents    `cmd:"" help:"An agent hands out its work, and a budget stops it until there is more."`
	Approvals demoApprovals `cmd:"" help:"An agent pays invoices, and asks before the large ones."`
	Child     demoChild     `cmd:"" hidden:"" help:"The process that the demo kills."`
}

// demoPlace is what all demos have.
type demoPlace struct {
	Dir    string `help:"Where it works; made anew each time." default:".perdure-demo" type:"path"`
	Output string `short:"o" help:"text: the story and the verdict. json: the verdict only." enum:"text,json" default:"text"`
	Keep   bool   `help:"Keep the data afterwards."`
}

// show is the demo as it stands there.
func (p demoPlace) show(a *app) demo.Show {
	show := a.Demo
	show.Dir, show.JSON, show.Keep = p.Dir, p.Output == "json", p.Keep
	show.Version, show.Out, show.Talk, show.Log = a.Version.Version, a.out, a.Stderr, a.log
	return show
}

type demoCrash struct {
	Kills int   `help:"How often it is killed." default:"5"`
	Seed  int64 `help:"From which the moments of the kills come." default:"1"`
	demoPlace
}

// Run runs the demo.
func (c *demoCrash) Run(ctx context.Context, a *app) error {
	if c.Kills < 0 {
		return misuse("--kills is below zero", "give 0 or more")
	}
	return demo.Crash{Show: c.show(a), Kills: c.Kills, Seed: c.Seed}.Run(ctx)
}

type demoAgents struct{ demoPlace }

// Run runs the demo.
func (c *demoAgents) Run(ctx context.Context, a *app) error {
	return demo.Agents{Show: c.show(a)}.Run(ctx)
}

type demoApprovals struct{ demoPlace }

// Run runs the demo, and takes answers from the terminal.
func (c *demoApprovals) Run(ctx context.Context, a *app) error {
	d := demo.Approvals{Show: c.show(a)}
	if a.Terminal.Stdin && !a.flags.NoInput && !d.JSON {
		d.Typed = a.readLines(ctx)
	}
	return d.Run(ctx)
}

// DemoWork is what the process that the demo kills works on.
type DemoWork struct {
	Dir    string // of the demo
	Finish bool   // take no new orders, finish what there is, and end
	Out    io.Writer
	Log    *slog.Logger
}

type demoChild struct {
	Finish bool `help:"Take no new orders, finish what there is, and end."`
}

// Run works until it is killed.
func (c *demoChild) Run(ctx context.Context, a *app) error {
	return a.DemoChild(ctx, DemoWork{Dir: a.flags.Data, Finish: c.Finish, Out: a.out, Log: a.log})
}

type chaosCommand struct {
	Kills       int      `help:"How often the server is killed." default:"100"`
	Seed        int64    `help:"From which the words, the faults and their moments come." default:"1"`
	Sessions    int      `help:"How many sessions are in work at once." default:"20"`
	Store       string   `help:"Where the server keeps its sessions: sqlite, in its data directory, or postgres: the database of --database, else a server that is started for it with the programs of this system." placeholder:"STORE" enum:"sqlite,postgres," default:""`
	Rival       bool     `help:"A second server works on the same database, undisturbed, and takes over what the first one lost. Needs Postgres."`
	Faults      []string `help:"What is done to the server: kill, stop, term, disk, away." placeholder:"FAULT" default:"kill,stop,term"`
	Agent       string   `help:"A script that answers instead of the built-in one. It is sent: order NUMBER." placeholder:"FILE" type:"path"`
	Tools       []string `help:"Call these tools only." placeholder:"TOOL"`
	EffectsFrom string   `help:"A command that lists the effects afterwards, a line each: CALL_ID KEY." placeholder:"COMMAND"`
	Dir         string   `help:"Where it works; must not be there yet. Without it a temporary folder." placeholder:"DIR" type:"path"`
	Keep        bool     `help:"Keep the data afterwards; after a violation it is always kept."`
	Output      string   `short:"o" help:"table, or json for programs." placeholder:"FORM" enum:"table,json" default:"table"`
	Sabotage    string   `hidden:"" help:"For tests: how the server breaks its word." enum:",claim,settle,deliver" default:""`
	Command     []string `arg:"" optional:"" help:"The server instead of this program's own; it serves the API on PERDURE_LISTEN."`
}

// Run disturbs a server and judges what is left.
func (c *chaosCommand) Run(ctx context.Context, a *app) error {
	s := a.Chaos
	s.Kills, s.Seed, s.Sessions, s.Agent, s.Tools, s.Faults = c.Kills, c.Seed, c.Sessions, c.Agent, c.Tools, c.Faults
	s.EffectsFrom, s.Dir, s.Keep, s.JSON, s.Sabotage = c.EffectsFrom, c.Dir, c.Keep, c.Output == "json", c.Sabotage
	s.Command, s.Store, s.Database, s.Rival = c.Command, c.Store, a.flags.Database, c.Rival
	s.Out, s.Talk = a.out, a.Stderr
	if what, todo := s.Fault(); what != "" {
		return misuse(what, todo)
	}
	return s.Run(ctx)
}

// The processes that chaos starts beside the server of a user.
const (
	ChaosServe  = "serve"
	ChaosLedger = "ledger"
	ChaosEffect = "effect"
)

// ChaosPart says what a process of chaos does.
type ChaosPart struct {
	Name     string
	Dir      string // the data directory; of the server
	File     string // of the ledger
	Ledger   string // its address; of an effect
	Effect   string // its name
	Sabotage string
	Out      io.Writer
	Log      *slog.Logger
}

// chaosPart is hidden: only chaos starts these.
type chaosPart struct {
	Serve  chaosServe  `cmd:"" help:"The server that chaos disturbs."`
	Ledger chaosLedger `cmd:"" help:"The ledger of effects."`
	Effect chaosEffect `cmd:"" help:"One effect."`
}

type chaosServe struct {
	Sabotage string `help:"How it breaks its word."`
}

// Run serves until it is killed, or stopped: then it ends as perdure serve does.
func (c *chaosServe) Run(ctx context.Context, a *app) error {
	err := a.ChaosPart(ctx, ChaosPart{Name: ChaosServe, Dir: a.flags.Data, Sabotage: c.Sabotage, Out: a.out, Log: a.log})
	if errors.Is(context.Cause(ctx), errInterrupted) && (err == nil || errors.Is(err, context.Canceled)) {
		return exit(exitOK)
	}
	return err
}

type chaosLedger struct {
	File string `arg:"" help:"Where the lines go."`
}

// Run takes lines until whoever started it is gone.
func (c *chaosLedger) Run(ctx context.Context, a *app) error {
	return a.ChaosPart(ctx, ChaosPart{Name: ChaosLedger, File: c.File, Out: a.out, Log: a.log})
}

type chaosEffect struct {
	Ledger string `help:"The ledger's address."`
	Effect string `help:"What was done."`
}

// Run writes a line.
func (c *chaosEffect) Run(ctx context.Context, a *app) error {
	return a.ChaosPart(ctx, ChaosPart{Name: ChaosEffect, Ledger: c.Ledger, Effect: c.Effect, Out: a.out, Log: a.log})
}
